#include "corpus/parquet_footer.hpp"

#include <algorithm>
#include <limits>
#include <string_view>

namespace krill::corpus {
namespace {

// Numbers of fields in parquet.thrift.
enum class FileField : int64_t { kSchema = 2, kRowGroups = 4 };
enum class SchemaField : int64_t { kName = 4, kChildren = 5 };
enum class GroupField : int64_t { kColumns = 1, kRows = 3 };
enum class ChunkField : int64_t { kMetadata = 3, kEncryption = 8 };
enum class ColumnField : int64_t {
  kType = 1,
  kValues = 5,
  kUncompressed = 6,
  kCompressed = 7,
  kDataPage = 9,
  kDictionaryPage = 11,
};

// Arrow numbers columns in 16 bits; deeper schemas than this are nobody's, and Arrow walks them by recursion.
constexpr size_t kMostLeaves = 32767;
constexpr size_t kDeepest = 200;
// No address is larger; sums over columns stay far from where integers end.
constexpr int64_t kMost = int64_t{1} << 47;

struct SchemaElement {
  std::string_view name;
  int64_t children = 0;
};

int64_t count_of(ThriftReader& reader, ThriftType type) {
  const int64_t value = reader.integer(type);
  if (value < 0 || value > kMost) throw DamagedThrift("a size or count is negative, or absurd");
  return value;
}

std::vector<SchemaElement> read_schema(ThriftReader& reader) {
  std::vector<SchemaElement> elements;
  reader.elements([&](ThriftType inner) {
    reader.expect(inner, ThriftType::kStruct);
    SchemaElement element;
    reader.fields([&](int64_t number, ThriftType type) {
      switch (static_cast<SchemaField>(number)) {
        case SchemaField::kName: element.name = reader.binary(type); return;
        case SchemaField::kChildren: element.children = count_of(reader, type); return;
      }
      reader.skip(type);
    });
    elements.push_back(element);
  });
  return elements;
}

// The schema is a tree written from its root down; each leaf is stored as a column.
std::vector<std::string> leaf_columns(const std::vector<SchemaElement>& elements) {
  std::vector<std::string> columns;
  if (elements.empty()) throw DamagedThrift("it has no schema");
  std::vector<int64_t> open{elements[0].children};  // how many children are still to come, from the root on
  std::string_view column;
  for (size_t i = 1; i < elements.size(); ++i) {
    while (!open.empty() && open.back() == 0) open.pop_back();
    if (open.empty() || open.size() > kDeepest) throw DamagedThrift("its schema is not a tree");
    --open.back();
    if (open.size() == 1) column = elements[i].name;
    if (elements[i].children > 0) {
      open.push_back(elements[i].children);
    } else {
      columns.emplace_back(column);
    }
  }
  for (const int64_t missing : open)
    if (missing != 0) throw DamagedThrift("its schema is not a tree");
  if (columns.size() > kMostLeaves) throw DamagedThrift("it has too many columns");
  return columns;
}

void read_column(ThriftReader& reader, ParquetFooter& footer) {
  int64_t type_of = -1, values = 0, uncompressed = 0, compressed = 0, data_page = 0, dictionary_page = 0;
  reader.fields([&](int64_t number, ThriftType type) {
    switch (static_cast<ColumnField>(number)) {
      case ColumnField::kType: type_of = count_of(reader, type); return;
      case ColumnField::kValues: values = count_of(reader, type); return;
      case ColumnField::kUncompressed: uncompressed = count_of(reader, type); return;
      case ColumnField::kCompressed: compressed = count_of(reader, type); return;
      case ColumnField::kDataPage: data_page = count_of(reader, type); return;
      case ColumnField::kDictionaryPage:
        dictionary_page =
            std::clamp<int64_t>(reader.integer(type), 0, kMost);  // some writers say -1 for none
        return;
    }
    reader.skip(type);
  });
  footer.types.push_back(type_of);
  footer.values.push_back(values);
  footer.uncompressed.push_back(uncompressed);
  footer.compressed.push_back(compressed);
  footer.data_page_offsets.push_back(data_page);
  footer.dictionary_page_offsets.push_back(dictionary_page);
}

void read_chunk(ThriftReader& reader, ParquetFooter& footer) {
  const size_t before = footer.types.size();
  reader.fields([&](int64_t number, ThriftType type) {
    switch (static_cast<ChunkField>(number)) {
      case ChunkField::kMetadata:
        reader.expect(type, ThriftType::kStruct);
        read_column(reader, footer);
        return;
      case ChunkField::kEncryption: throw DamagedThrift("a column is encrypted");
    }
    reader.skip(type);
  });
  if (footer.types.size() != before + 1) throw DamagedThrift("a column says nothing of itself");
}

void read_group(ThriftReader& reader, ParquetFooter& footer) {
  const size_t before = footer.types.size();
  int64_t rows = -1;
  reader.fields([&](int64_t number, ThriftType type) {
    switch (static_cast<GroupField>(number)) {
      case GroupField::kColumns:
        reader.expect(type, ThriftType::kList);
        reader.elements([&](ThriftType inner) {
          reader.expect(inner, ThriftType::kStruct);
          read_chunk(reader, footer);
        });
        return;
      case GroupField::kRows: rows = count_of(reader, type); return;
    }
    reader.skip(type);
  });
  if (rows < 0 || footer.types.size() != before + footer.columns.size())
    throw DamagedThrift("a row group has not the columns of the schema");
  footer.rows.push_back(rows);
}

void check_sums(const ParquetFooter& footer) {
  int64_t total = 0;
  for (const int64_t rows : footer.rows) {
    if (rows > std::numeric_limits<int64_t>::max() - total) throw DamagedThrift("it has too many rows");
    total += rows;
  }
}

}  // namespace

ParquetFooter parse_parquet_footer(const uint8_t* data, size_t size) {
  ParquetFooter footer;
  ThriftReader reader(data, size);
  bool has_schema = false;
  reader.fields([&](int64_t number, ThriftType type) {
    switch (static_cast<FileField>(number)) {
      case FileField::kSchema:
        reader.expect(type, ThriftType::kList);
        if (has_schema) throw DamagedThrift("it has two schemas");
        footer.columns = leaf_columns(read_schema(reader));
        has_schema = true;
        return;
      case FileField::kRowGroups:
        // The schema comes first, as fields are written by their numbers.
        if (!has_schema || !footer.rows.empty())
          throw DamagedThrift("it has no schema, or two lists of row groups");
        reader.expect(type, ThriftType::kList);
        reader.elements([&](ThriftType inner) {
          reader.expect(inner, ThriftType::kStruct);
          read_group(reader, footer);
        });
        return;
    }
    reader.skip(type);
  });
  if (!has_schema) throw DamagedThrift("it has no schema");
  check_sums(footer);
  return footer;
}

}  // namespace krill::corpus
