// The only file that names the Python module; each part of the core binds itself in bind_<part>.cpp.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace krill::bindings {

void bind_readers(nb::module_&);
void bind_csv(nb::module_&);
void bind_clean(nb::module_&);
void bind_dedup(nb::module_&);
void bind_minhash(nb::module_&);
void bind_tokens(nb::module_&);
void bind_memory(nb::module_&);
void bind_scanner(nb::module_&);
void bind_merges(nb::module_&);
void bind_counter(nb::module_&);
void bind_encoder(nb::module_&);
void bind_bpe_model(nb::module_&);
void bind_quality(nb::module_&);
void bind_pack(nb::module_&);
void bind_language(nb::module_&);
void bind_loading(nb::module_&);
void bind_qa(nb::module_&);
void bind_datatrove(nb::module_&);
void bind_parquet(nb::module_&);
void bind_literals(nb::module_&);
void bind_columns(nb::module_&);
void bind_url(nb::module_&);
void bind_fasttext(nb::module_&);
void bind_regex(nb::module_&);
void bind_pretokenizer(nb::module_&);
void bind_models(nb::module_&);
void bind_normalize(nb::module_&);
void bind_decoders(nb::module_&);
void bind_tokenizer_file(nb::module_&);
void bind_web(nb::module_&);

}  // namespace krill::bindings

NB_MODULE(_native, m) {
  // What a batch's memory belongs to may outlive the module: JAX keeps arrays to the interpreter's end.
  using namespace krill::bindings;
  nb::set_leak_warnings(false);
  m.doc() = "Krill's native core: the loops that touch every byte.";
  bind_readers(m);
  bind_csv(m);
  bind_clean(m);
  bind_dedup(m);
  bind_minhash(m);
  bind_tokens(m);
  bind_memory(m);
  bind_scanner(m);
  bind_merges(m);
  bind_counter(m);
  bind_models(m);
  bind_bpe_model(m);
  bind_normalize(m);
  bind_regex(m);
  bind_pretokenizer(m);
  bind_decoders(m);
  bind_encoder(m);
  bind_quality(m);
  bind_pack(m);
  bind_language(m);
  bind_loading(m);
  bind_qa(m);
  bind_datatrove(m);
  bind_parquet(m);
  bind_literals(m);
  bind_columns(m);
  bind_url(m);
  bind_fasttext(m);
  bind_tokenizer_file(m);
  bind_web(m);
}
