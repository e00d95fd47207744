#include "tensors.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace torch_hostnccl {
namespace {

// Of tensors that have the same sizes, but may lie differently.
void copy_values(const at::Tensor& from, const at::Tensor& to) {
  if (from.is_contiguous() && to.is_contiguous()) {
    if (from.nbytes() > 0) std::memmove(to.data_ptr(), from.data_ptr(), from.nbytes());
    return;
  }
  const at::AutoDispatchBelowADInplaceOrView plain;  // what NCCL writes is not noted, either
  to.copy_(from);
}

// A part of the flat form, as rows of a tensor like this one.
at::Tensor part_of(const at::Tensor& flat, size_t index, const at::Tensor& like) {
  const at::AutoDispatchBelowADInplaceOrView plain;
  return flat.narrow(0, static_cast<int64_t>(index) * like.numel(), like.numel())
      .view(like.sizes());
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

at::Tensor by_rows(const at::Tensor& tensor) {
  return tensor.is_contiguous()
             ? tensor
             : at::empty(tensor.sizes(), tensor.options().memory_format(c10::nullopt));
}

Tensors by_rows(const Tensors& tensors) {
  Tensors rows;
  for (const at::Tensor& tensor : tensors) rows.push_back(by_rows(tensor));
  return rows;
}

std::function<void()> copies(const Tensors& from, const Tensors& to) {
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs;
  for (size_t i = 0; i < from.size(); ++i) {
    if (!from[i].is_same(to[i])) pairs.emplace_back(from[i], to[i]);
  }
  if (pairs.empty()) return {};
  return [pairs] {
    for (const auto& [one, other] : pairs) copy_values(one, other);
  };
}

void flatten(const Tensors& from, const at::Tensor& to) {
  for (size_t i = 0; i < from.size(); ++i) copy_values(from[i], part_of(to, i, from[i]));
}

void unflatten(const at::Tensor& from, const Tensors& to) {
  for (size_t i = 0; i < to.size(); ++i) copy_values(part_of(from, i, to[i]), to[i]);
}

}  // namespace torch_hostnccl
