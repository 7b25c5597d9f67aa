// Makes a library of torch operators importable: `import axpy_kernel; axpy_kernel.axpy(x, y, 2.0)`
// is torch.ops.axpy_kernel.axpy(x, y, 2.0). Linked into every extension; a source that brings a
// module of its own (PYBIND11_MODULE) keeps it, for this definition is weak.

#include <Python.h>

#define OPTEST_TEXT_(name) #name
#define OPTEST_TEXT(name) OPTEST_TEXT_(name)
#define OPTEST_JOIN_(a, b) a##b
#define OPTEST_JOIN(a, b) OPTEST_JOIN_(a, b)

namespace {

// torch.ops.<name>.<attribute>. Names of the import system's own are no operators.
PyObject* operator_of(PyObject*, PyObject* attribute) {
  const char* text = PyUnicode_AsUTF8(attribute);
  if (text == nullptr) return nullptr;
  if (text[0] == '_' && text[1] == '_') {
    PyErr_SetObject(PyExc_AttributeError, attribute);
    return nullptr;
  }
  PyObject* torch = PyImport_ImportModule("torch");
  if (torch == nullptr) return nullptr;
  PyObject* ops = PyObject_GetAttrString(torch, "ops");
  Py_DECREF(torch);
  if (ops == nullptr) return nullptr;
  PyObject* operators = PyObject_GetAttrString(ops, OPTEST_TEXT(TORCH_EXTENSION_NAME));
  Py_DECREF(ops);
  if (operators == nullptr) return nullptr;
  PyObject* found = PyObject_GetAttr(operators, attribute);
  Py_DECREF(operators);
  return found;
}

PyMethodDef methods[] = {
    {"__getattr__", operator_of, METH_O, "The operator of that name."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    OPTEST_TEXT(TORCH_EXTENSION_NAME),
    "The operators of torch.ops." OPTEST_TEXT(TORCH_EXTENSION_NAME) ".",
    -1,
    methods,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
};

}  // namespace

extern "C" __attribute__((weak, visibility("default"))) PyObject* OPTEST_JOIN(
    PyInit_, TORCH_EXTENSION_NAME)() {
  PyObject* module = PyModule_Create(&definition);
  if (module != nullptr) PyModule_AddIntConstant(module, "__operators__", 1);
  return module;
}
