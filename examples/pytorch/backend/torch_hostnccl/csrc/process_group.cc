#include "process_group.h"

#include <algorithm>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include "call_group.h"
#include "callbacks.h"
#include "errors.h"
#include "meeting.h"
#include "without_python.h"

namespace torch_hostnccl {
namespace {

constexpr const char* kWhole = "group";

void run_copy(void* copy) {
  const std::unique_ptr<std::function<void()>> owned(static_cast<std::function<void()>*>(copy));
  (*owned)();
}

void queue(const std::function<void()>& copy, cudaStream_t stream) {
  if (!copy) return;
  check(hostncclLaunchHostFunc(stream, &run_copy, new std::function<void()>(copy)),
        "hostncclLaunchHostFunc");
}

// What one that fails has queued by then still uses its memory: `held` keeps it until that is done.
template <class Held, class Calls>
void queue_all(const Held& held, cudaStream_t stream, const Calls& calls) {
  try {
    calls();
  } catch (...) {
    queue([held] {}, stream);
    throw;
  }
}

// Names that torch's older releases do not have: the second of each pair is for them.
template <class Group>
auto uid_of(const Group& group, int) -> decltype(std::string(group.getGroupUid())) {
  return group.getGroupUid();
}
template <class Group>
std::string uid_of(const Group& group, long) {
  return group.getGroupName();
}
template <class Options>
auto name_of(const Options& options, int) -> decltype(std::string(options.group_name)) {
  return options.group_name;
}
template <class Options>
std::string name_of(const Options&, long) {
  return {};
}
template <class Options>
auto description_of(const Options& options, int) -> decltype(std::string(options.group_desc)) {
  return options.group_desc;
}
template <class Options>
std::string description_of(const Options&, long) {
  return {};
}

// Whether torch made up the description of a part, `PARENT:split:N`, for it was given none. N may
// be negative: torch 2.11 counts from what its memory held before.
bool is_made_up(const std::string& description, const std::string& parent) {
  const std::string begin = parent + ":split:";
  return description.size() > begin.size() && description.compare(0, begin.size(), begin) == 0 &&
         description.find_first_not_of("0123456789-", begin.size()) == std::string::npos;
}

// The program's thread goes on beside a callback, on one rank further than on another.
void require_an_order() {
  if (!in_callback()) return;
  throw_backend_error(c10::str(
      "hostnccl: a call in a future's callback has no place among the others that ranks share. "
      "With ",
      kInOrder,
      "=1 in the environment get_future() waits, and callbacks run in the program's order"));
}

void append(Tensors& to, const Tensors& from) { to.insert(to.end(), from.begin(), from.end()); }

}  // namespace

HostGroup::HostGroup(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                     Milliseconds timeout)
    : Backend(rank, size), store_(std::move(store)), timeout_(at_most_ten_years(timeout)) {
  init();
}

HostGroup::~HostGroup() {
  const WithoutPython unlocked;
  try {
    shutdown();
  } catch (const std::exception& error) {
    TORCH_WARN("hostnccl: ", error.what());
  }
}

c10::intrusive_ptr<c10d::Backend::Options> HostGroup::getBackendOptions() {
  auto options = c10::make_intrusive<Options>(getBackendName(), timeout_);
  return options;
}

Milliseconds HostGroup::timeout_of(Milliseconds given) const {
  return given == c10d::kUnsetTimeout ? timeout_ : given;
}

uint64_t HostGroup::next_number(bool message) { return ++(message ? messages_ : collectives_); }

// By which rules for a communicator's name can know the group: a description that was given to it,
// such as a mesh's dimension, or the name that torch has for it.
std::string HostGroup::name() const {
  if (!name_.empty()) return name_;
  const std::string& description = getGroupDesc();
  return description.empty() || description == "undefined" ? uid_of(*this, 0) : description;
}

std::string HostGroup::name_of_part(const c10::intrusive_ptr<Options>& options) const {
  const std::string description = description_of(*options, 0);
  const bool given = !description.empty() && !is_made_up(description, getGroupDesc());
  return given ? description : name_of(*options, 0);
}

HostGroup::CommunicatorPtr HostGroup::communicator() {
  return communicator(kWhole, getRank(), getSize());
}

HostGroup::CommunicatorPtr HostGroup::communicator(int other) {
  const int low = std::min(getRank(), other), high = std::max(getRank(), other);
  return communicator(c10::str(low, ":", high), getRank() == low ? 0 : 1, low == high ? 1 : 2);
}

HostGroup::CommunicatorPtr HostGroup::communicator(const std::string& key, int rank, int size) {
  if (CommunicatorPtr found = find(key)) return found;
  const Turn turn(turns_, key);
  if (CommunicatorPtr found = find(key)) return found;
  require_alive();
  const std::string called = key == kWhole ? name() : c10::str(name(), ":", key);
  return keep(key, meet(*store_, key, rank, size, called, timeout_));
}

HostGroup::CommunicatorPtr HostGroup::find(const std::string& key) {
  std::lock_guard lock(mutex_);
  const auto found = communicators_.find(key);
  return found == communicators_.end() ? nullptr : found->second;
}

// Whose communicators would wait for ranks that do not come.
void HostGroup::require_alive() {
  std::lock_guard lock(mutex_);
  if (!over_.empty()) throw_backend_error(over_);
}

HostGroup::CommunicatorPtr HostGroup::keep(const std::string& key, CommunicatorPtr made) {
  std::string over;
  {
    std::lock_guard lock(mutex_);
    communicators_[key] = made;
    over = over_;
  }
  if (!over.empty()) made->abort(over);
  return made;
}

int64_t HostGroup::comm_pointer() {
  const CommunicatorPtr found = find(kWhole);
  return found ? reinterpret_cast<int64_t>(found->handle()) : 0;
}

void HostGroup::abort() {
  std::map<std::string, CommunicatorPtr> all;
  {
    std::lock_guard lock(mutex_);
    over_ = "its group was aborted";
    all = communicators_;
  }
  for (const auto& [key, one] : all) one->abort("its group was aborted");
}

// What an error left between startCoalescing and endCoalescing does not go out any more, and the
// thread's next calls are in no group.
void HostGroup::give_up_coalescing() {
  if (coalescing_.depth == 0 || open_groups == 0) return;
  abort();
  for (; coalescing_.depth > 0 && open_groups > 0; --coalescing_.depth, --open_groups)
    ncclGroupEnd();
}

void HostGroup::shutdown() {
  give_up_coalescing();
  std::map<std::string, CommunicatorPtr> all;
  {
    std::lock_guard lock(mutex_);
    over_ = "its group was shut down";
    all.swap(communicators_);
  }
  for (const auto& [key, one] : all) one->finalize();
  for (const auto& [key, one] : all) one->close();
}

c10::intrusive_ptr<c10d::Backend> HostGroup::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                   const std::vector<int>& ranks,
                                                   const c10::intrusive_ptr<Options>& options) {
  TORCH_CHECK_WITH(ValueError, !ranks.empty(), "split: no ranks");
  const auto mine = std::find(ranks.begin(), ranks.end(), getRank());
  const bool member = mine != ranks.end();
  // The lists are disjoint: their first ranks tell them apart.
  const int color = member ? *std::min_element(ranks.begin(), ranks.end()) : NCCL_SPLIT_NOCOLOR;
  const int rank = static_cast<int>(mine - ranks.begin());
  const std::string called = name_of_part(options);
  const auto part = communicator()->split(color, member ? rank : 0, called);
  if (!member) return nullptr;
  auto group =
      c10::make_intrusive<HostGroup>(store, rank, static_cast<int>(ranks.size()), options->timeout);
  group->communicators_[kWhole] = part;
  group->name_ = called;
  return group;
}

c10::intrusive_ptr<c10d::Backend> HostGroup::split(const std::vector<int>& ranks,
                                                   const c10::intrusive_ptr<Options>& options) {
  TORCH_CHECK_WITH(ValueError, !ranks.empty(), "split: no ranks");
  const std::string part =
      c10::str("split/", splits_++, "/", *std::min_element(ranks.begin(), ranks.end()));
  return split(c10::make_intrusive<c10d::PrefixStore>(part, store_), ranks, options);
}

void HostGroup::startCoalescing() {
  require_an_order();
  if (coalescing_.depth == 0) {
    coalescing_ = {};
    coalescing_.communicator = communicator();
    coalescing_.timeout = timeout_;
  }
  begin_group();
  ++coalescing_.depth;
}

c10::intrusive_ptr<c10d::Work> HostGroup::endCoalescing() {
  TORCH_CHECK(coalescing_.depth > 0, "endCoalescing without startCoalescing");
  if (--coalescing_.depth > 0) {
    end_group();
    return nullptr;
  }
  Coalescing done = std::exchange(coalescing_, {});
  // Not kept with the memory: its own stream would be the last to let go of it.
  const CommunicatorPtr communicator = std::move(done.communicator);
  const cudaStream_t stream = communicator->stream();
  auto work = c10::make_intrusive<HostWork>(
      getRank(), c10d::OpType::COALESCED, "hostnccl:coalesced", done.inputs, done.outputs,
      next_number(done.only_messages), done.timeout, communicator);
  queue_all(done, stream, [&] {
    end_group();
    for (const Copy& copy : done.after) queue(copy, stream);
    work->begin();
  });
  return work;
}

// The calls go out with the others of the group, at its end.
c10::intrusive_ptr<c10d::Work> HostGroup::add(Job job) {
  const CommunicatorPtr& communicator = coalescing_.communicator;
  queue_all(job, communicator->stream(), [&] {
    queue(job.before, communicator->stream());
    job.calls(communicator->handle(), communicator->stream());
  });
  if (job.after) coalescing_.after.push_back(job.after);
  coalescing_.only_messages = coalescing_.only_messages && c10d::isP2POp(job.type);
  append(coalescing_.inputs, job.inputs);
  append(coalescing_.outputs, job.outputs);
  coalescing_.timeout = std::max(coalescing_.timeout, job.timeout);
  return nullptr;
}

c10::intrusive_ptr<c10d::Work> HostGroup::run(Job job) {
  require_an_order();
  return coalescing_.depth > 0 ? add(std::move(job)) : run(std::move(job), communicator());
}

c10::intrusive_ptr<c10d::Work> HostGroup::run(Job job, const CommunicatorPtr& communicator) {
  const cudaStream_t stream = communicator->stream();
  auto work = c10::make_intrusive<HostWork>(getRank(), job.type, job.title, job.inputs, job.outputs,
                                            next_number(c10d::isP2POp(job.type)), job.timeout,
                                            communicator);
  queue_all(job, stream, [&] {
    queue(job.before, stream);
    job.calls(communicator->handle(), stream);
    queue(job.after, stream);
    work->begin();
  });
  return work;
}

}  // namespace torch_hostnccl
