// What is asked of tensors before they are handed to NCCL, and copies of them.
#pragma once

#include <functional>
#include <vector>

#include "work.h"

namespace torch_hostnccl {

// Dense, contiguous, on the CPU; else c10::ValueError, as from ProcessGroupNCCL.
void check_tensor(const at::Tensor& tensor);
// The one tensor of a list, likewise: there is one device.
at::Tensor& single(Tensors& tensors);
Tensors& single(std::vector<Tensors>& lists);
// Each as `check_tensor`, all of the same type; not none.
void check_alike(const Tensors& tensors);
// One for each rank, of the same type as `tensor`.
void check_list(const Tensors& list, const at::Tensor& tensor, int size, const char* call);

bool same_sizes(const Tensors& tensors);
at::Tensor flat_like(const Tensors& tensors);  // room for all of them, one behind the other

// The tensors of a list travel row by row, as ranks do not know how those of others lie. Here is
// room for a copy in place of each that lies otherwise, such as channels_last; the rest as it is.
Tensors by_rows(const Tensors& tensors);
at::Tensor by_rows(const at::Tensor& tensor);
// Copies each to its counterpart, if that is another one; empty: there are none such.
std::function<void()> copies(const Tensors& from, const Tensors& to);

// Copies between a list and its flat form; both as `check_tensor` has it.
void flatten(const Tensors& from, const at::Tensor& to);
void unflatten(const at::Tensor& from, const Tensors& to);

}  // namespace torch_hostnccl
