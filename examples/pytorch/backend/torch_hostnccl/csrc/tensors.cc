#include "tensors.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>

namespace torch_hostnccl {
namespace {

void copy_bytes(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

char* part_of(const at::Tensor& flat, size_t index, size_t parts) {
  return static_cast<char*>(flat.data_ptr()) + flat.nbytes() / parts * index;
}

}  // namespace

void check_tensor(const at::Tensor& tensor) {
  if (!tensor.is_cpu() || tensor.layout() != at::kStrided) {
    C10_THROW_ERROR(ValueError, "Tensors must be CPU and dense");
  }
  if (!tensor.is_contiguous(tensor.suggest_memory_format())) {
    C10_THROW_ERROR(ValueError, "Tensors must be contiguous");
  }
}

at::Tensor& single(Tensors& tensors) {
  TORCH_CHECK_WITH(ValueError, tensors.size() == 1, "Expecting one tensor only but got multiple");
  check_tensor(tensors[0]);
  return tensors[0];
}

Tensors& single(std::vector<Tensors>& lists) {
  TORCH_CHECK_WITH(ValueError, lists.size() == 1, "Expecting one list of tensors only");
  return lists[0];
}

void check_alike(const Tensors& tensors) {
  TORCH_CHECK_WITH(ValueError, !tensors.empty(), "Tensor list must be nonempty");
  for (const at::Tensor& tensor : tensors) {
    check_tensor(tensor);
    TORCH_CHECK_WITH(TypeError, tensor.scalar_type() == tensors[0].scalar_type(),
                     "Tensors must have identical type");
  }
}

void check_list(const Tensors& list, const at::Tensor& tensor, int size, const char* call) {
  TORCH_CHECK_WITH(ValueError, list.size() == static_cast<size_t>(size), call, ": the list has ",
                   list.size(), " tensors, the group ", size, " ranks");
  check_alike(list);
  TORCH_CHECK_WITH(TypeError, list[0].scalar_type() == tensor.scalar_type(), call,
                   ": the list's tensors must be of the same type as the other one");
}

bool same_sizes(const Tensors& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor& tensor) {
    return tensor.sizes() == tensors[0].sizes();
  });
}

at::Tensor flat_like(const Tensors& tensors) {
  return at::empty({tensors[0].numel() * static_cast<int64_t>(tensors.size())},
                   tensors[0].options().memory_format(c10::nullopt));
}

void flatten(const Tensors& from, const at::Tensor& to) {
  for (size_t i = 0; i < from.size(); ++i) {
    copy_bytes(part_of(to, i, from.size()), from[i].data_ptr(), from[i].nbytes());
  }
}

void unflatten(const at::Tensor& from, const Tensors& to) {
  for (size_t i = 0; i < to.size(); ++i) {
    copy_bytes(to[i].data_ptr(), part_of(from, i, to.size()), to[i].nbytes());
  }
}

}  // namespace torch_hostnccl
