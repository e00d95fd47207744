// Python's lock, let go of while a thread waits.
#pragma once

#include <Python.h>

namespace torch_hostnccl {

// If the thread has the lock: a callback, or a tensor's end, may want it.
class WithoutPython {
 public:
  WithoutPython() {
    if (Py_IsInitialized() && PyGILState_Check()) state_ = PyEval_SaveThread();
  }
  ~WithoutPython() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }
  WithoutPython(const WithoutPython&) = delete;
  WithoutPython& operator=(const WithoutPython&) = delete;

 private:
  PyThreadState* state_ = nullptr;
};

}  // namespace torch_hostnccl
