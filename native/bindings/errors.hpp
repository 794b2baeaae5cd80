// Errors of the core as exceptions of the Python module.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <string>

namespace krill::bindings {

namespace nb = nanobind;

// Adds the exception `name`, of class `base`, which is raised for Error. `ArgsOf`, a lambda without captures,
// makes its args, a tuple, from the error.
template <class Error, class ArgsOf>
void bind_error(nb::module_& m, const char* name, PyObject* base, ArgsOf) {
  const std::string full_name = std::string("krill._native.") + name;
  const nb::object type = nb::steal(PyErr_NewException(full_name.c_str(), base, nullptr));
  if (!type.is_valid()) nb::raise_python_error();
  m.attr(name) = type;
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void* raised) {
        try {
          std::rethrow_exception(thrown);
        } catch (const Error& error) {
          const nb::tuple args = ArgsOf{}(error);
          PyErr_SetObject(static_cast<PyObject*>(raised), args.ptr());
        }
      },
      type.ptr());  // the module, which is never unloaded, keeps it alive
}

}  // namespace krill::bindings
