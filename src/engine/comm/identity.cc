#include "engine/comm/identity.h"

#include "base/text.h"

namespace terse {
namespace {

int ranks_of(const NcclLibrary& library, ncclComm_t comm) {
  int ranks = 0;
  check(library, library.nccl.CommCount(comm, &ranks), "ncclCommCount");
  return ranks;
}

int rank_in(const NcclLibrary& library, ncclComm_t comm) {
  int rank = 0;
  check(library, library.nccl.CommUserRank(comm, &rank), "ncclCommUserRank");
  return rank;
}

}  // namespace

CommIdentity::CommIdentity(const Settings& settings, const NcclLibrary& library, ncclComm_t comm)
    : settings(settings),
      library(library),
      comm(comm),
      ranks(ranks_of(library, comm)),
      rank(rank_in(library, comm)) {}

std::string describe(const std::string& name, std::optional<uint64_t> ordinal, int rank,
                     int ranks) {
  const std::string which = !name.empty()
                                ? fmt::format("communicator \"{}\"", printable(shortened(name)))
                            : ordinal ? fmt::format("communicator #{}", *ordinal)
                                      : "a new communicator";
  return fmt::format("{}, rank {} of {}", which, rank, ranks);
}

std::string CommIdentity::describe() const {
  return terse::describe(name_, agreed_.number(), rank, ranks);
}

std::string CommIdentity::about(std::string text) const {
  const std::string prefix = describe() + ": ";
  return text.starts_with(prefix) ? text : prefix + text;
}

std::string CommIdentity::without_name(std::string text) const {
  const std::string prefix = describe() + ": ";
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

void CommIdentity::add_context(Error& error) const {
  error.message = about(std::move(error.message));
  error.rank = rank;
}

}  // namespace terse
