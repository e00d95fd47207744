// The facade: a libnccl.so.2 that leads to the preload library and to an NCCL behind it, for
// clients that cannot be caught otherwise.
#pragma once

#include <string>

namespace terse::cli {

// What a facade consists of; absolute paths.
struct Facade {
  std::string blank;       // lib/terse/nccl_facade.blank, of the build
  std::string interposer;  // libterse_nccl.so
  std::string nccl;        // the real one
};

// Where the facade is, or will be when it is written: a folder of the user's cache that is named
// after its parts, so that all ranks of a host share it.
std::string facade_path(const Facade& facade);

// Writes it, unless it is there. Throws Error.
void write_facade(const Facade& facade);

}  // namespace terse::cli
