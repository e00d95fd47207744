// Facade: a libnccl.so.2 that leads to the preload library and to an NCCL behind it, for clients
// that cannot be intercepted otherwise.
#pragma once

#include <string>

namespace terse::cli {

// Parts of a facade; absolute paths.
struct Facade {
  std::string blank;       // lib/terse/nccl_facade.blank of the build
  std::string interposer;  // libterse_nccl.so
  std::string nccl;        // the real one
};

// LD_PRELOAD separates by blanks and colons, without quotes.
bool can_be_preloaded(const std::string& path);

struct Written {
  std::string path;     // "": nowhere
  std::string why_not;  // if it could not be written
};

// Writes it, unless it is there, into the first folder that takes it and that can_be_preloaded():
// of XDG_CACHE_HOME, HOME/.cache, TMPDIR. Its name is of its parts, so that all ranks of a host
// share it. Throws Error if others may write to XDG_CACHE_HOME's folder.
Written write_facade(const Facade& facade);

}  // namespace terse::cli
