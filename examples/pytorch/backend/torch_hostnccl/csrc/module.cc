// What Python sees of the backend.
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include "callbacks.h"
#include "process_group.h"

namespace torch_hostnccl {
namespace {

// Given to torch, which knows how to make it once `torch_hostnccl` has registered it.
c10::intrusive_ptr<c10d::Backend> create(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                         int size, std::chrono::duration<double> timeout) {
  return c10::make_intrusive<HostGroup>(store, rank, size,
                                        std::chrono::duration_cast<Milliseconds>(timeout));
}

}  // namespace
}  // namespace torch_hostnccl

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  // So that Python is given the group itself where torch holds a Backend.
  pybind11::class_<torch_hostnccl::HostGroup, c10d::Backend,
                   c10::intrusive_ptr<torch_hostnccl::HostGroup>>(m, "HostGroup")
      .def("_comm_ptr", &torch_hostnccl::HostGroup::comm_pointer,
           pybind11::call_guard<pybind11::gil_scoped_release>())
      // Torch's older releases have these in no Backend.
      .def("abort", &torch_hostnccl::HostGroup::abort,
           pybind11::call_guard<pybind11::gil_scoped_release>())
      .def("shutdown", &torch_hostnccl::HostGroup::shutdown,
           pybind11::call_guard<pybind11::gil_scoped_release>());
  m.def("wait_for_callbacks", &torch_hostnccl::wait_for_callbacks, pybind11::arg("seconds"),
        pybind11::call_guard<pybind11::gil_scoped_release>());
  m.def("create", &torch_hostnccl::create, pybind11::arg("store"), pybind11::arg("rank"),
        pybind11::arg("size"), pybind11::arg("timeout"));
}
