// Where buffers live and what orders the work: a table, so that another kind of device is another
// table.
#ifndef TERSE_BENCH_PERF_DEVICE_H_
#define TERSE_BENCH_PERF_DEVICE_H_

#include <nccl.h>

#include <cstddef>
#include <string>

namespace terse::perf {

// Every function throws std::runtime_error on failure. "Device memory" is what NCCL takes.
struct Device {
  std::string (*describe)(int index);  // for the header's device list
  void* (*allocate)(std::size_t bytes);
  void (*release)(void* memory);
  void (*copy_in)(void* device, const void* host, std::size_t bytes);
  void (*copy_out)(void* host, const void* device, std::size_t bytes);
  void (*copy)(void* to, const void* from, std::size_t bytes);  // device to device
  void (*zero)(void* device, std::size_t bytes);
  cudaStream_t (*create_stream)();
  void (*destroy_stream)(cudaStream_t stream);
  void (*synchronize)(cudaStream_t stream);
  // Writes the time, in seconds of a steady clock, when the stream comes past this point.
  void (*stamp)(cudaStream_t stream, double* seconds);
};

// Host memory and hostnccl's streams.
const Device& HostDevice();

}  // namespace terse::perf

#endif  // TERSE_BENCH_PERF_DEVICE_H_
