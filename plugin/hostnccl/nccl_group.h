// Groups: what a thread calls between ncclGroupStart and ncclGroupEnd is kept and launched at the
// outermost end. A call outside a group is a group of its own.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "comm.h"
#include "stream.h"

namespace hostnccl {

// A communicator to be made: started at the end of the group, handed out through `out`.
struct PendingInit {
  std::function<CommPtr()> start;
  ncclComm_t* out = nullptr;
  bool blocking = true;  // whether the call does: a part's goes by its parent, as in NCCL
  CommPtr parent;        // of a split or shrink; null: `out` is set before the initialisation ends
  bool at_listener = false;  // its ranks meet at the parent's, which serves one part at a time
};

class Group {
 public:
  static Group& current();  // of the calling thread

  void start() { ++depth_; }
  ncclResult_t end();                 // launches at depth 0; throws the first failure of the group
  void discard();                     // the same without a launch
  void note(const Failure& failure);  // a call of this thread failed

  // `stream` null: done on return of the outermost end.
  ncclResult_t add(CommPtr comm, Op op, std::shared_ptr<Stream> stream);
  ncclResult_t add(PendingInit init);

 private:
  struct Part {
    CommPtr comm;
    std::vector<Op> ops;
    std::set<std::shared_ptr<Stream>> streams;
    bool waits = false;  // for those without a stream
  };
  struct Content {
    Outcome failure;
    std::vector<Part> parts;  // in order of first appearance
    std::vector<PendingInit> inits;
  };

  void leave_to_parent();
  static ncclResult_t initialize(std::vector<PendingInit>& inits);
  static ncclResult_t launch(std::vector<Part>& parts);

  int depth_ = 0;
  Content content_;
};

}  // namespace hostnccl
