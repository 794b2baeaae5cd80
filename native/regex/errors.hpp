// Why a pattern is not taken.
#pragma once

#include <stdexcept>
#include <string>

namespace krill::regex {

// A pattern that Hugging Face's tokenizers take, but this engine does not.
class Unsupported : public std::invalid_argument {
 public:
  explicit Unsupported(const std::string& what) : std::invalid_argument(what + " is not supported") {}
};

[[noreturn]] inline void refuse(const std::string& why) { throw std::invalid_argument(why); }

}  // namespace krill::regex
