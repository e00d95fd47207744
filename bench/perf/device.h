// Where buffers live and what orders the work: a table, so that another kind of device is another
// table.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace terse::perf {

struct DeviceInfo {
  std::string bus_id;  // domain:bus:device
  std::string name;
};

// Notes when a stream comes past numbered points.
class StreamClock {
 public:
  virtual ~StreamClock() = default;
  // Marks where the stream stands. In rising order of the points, each at most once.
  virtual void stamp(std::size_t point) = 0;
  // By point, seconds since the first that was marked; 0 for those that were not. The stream must
  // be synchronized.
  virtual std::vector<double> seconds() const = 0;
};

// Every function throws std::runtime_error on failure. "Device memory" is what NCCL takes.
struct Device {
  int (*count)();  // of devices; 0 where ranks need none of their own
  // What the calling thread makes from now on (memory, streams, communicators) is this device's.
  void (*select)(int index);
  const char* memory;                 // what holds the buffers, for -M
  std::size_t (*used)();              // bytes of it that are in use, on the selected device
  DeviceInfo (*describe)(int index);  // for the header's device list
  void* (*allocate)(std::size_t bytes);
  void (*release)(void* memory);
  void (*copy_in)(void* device, const void* host, std::size_t bytes);
  void (*copy_out)(void* host, const void* device, std::size_t bytes);
  void (*copy)(void* to, const void* from, std::size_t bytes);  // device to device
  void (*zero)(void* device, std::size_t bytes);
  cudaStream_t (*create_stream)();
  void (*destroy_stream)(cudaStream_t stream);
  // A null stream is the selected device's.
  void (*synchronize)(cudaStream_t stream);
  std::unique_ptr<StreamClock> (*create_clock)(cudaStream_t stream, std::size_t points);
};

// Host memory and hostnccl's streams.
const Device& host_device();

// GPUs. Throws std::runtime_error where the programs were built without CUDA.
const Device& cuda_device();

// The one that the NCCL in use works on.
const Device& device_in_use();

}  // namespace terse::perf
