// Meetings of the ranks' kernels: each rank raises a flag at all others, behind what it has stored
// there, and waits for theirs.
//
// Flags count the laps of a unit over all calls, on the device, so that a graph may replay them. A
// flag has the digest of its call. If a peer's differs, no unit writes a result, and the first one
// reports both calls. Each unit that waits for a rank which has left reports that. All later
// kernels on the window end at once then, as after an abort.
#pragma once

#include "kernels/arch/arch.h"
#include "kernels/arch/flags.h"
#include "kernels/device/exchange.h"

namespace terse::kernels {

// Threads that are a chain: a warp, or a thread block.
class Unit {
 public:
  TERSE_DEVICE explicit Unit(bool is_block)
      : is_block_(is_block),
        warp_(simt::block_index() * (simt::block_size() / simt::kWarp) +
              simt::thread_index() / simt::kWarp) {}

  TERSE_DEVICE uint32_t warp() const { return warp_; }
  TERSE_DEVICE uint32_t index() const { return is_block_ ? simt::block_index() : warp_; }
  TERSE_DEVICE uint32_t count() const { return is_block_ ? simt::grid_size() : warps(); }
  // Of the grid.
  TERSE_DEVICE uint32_t warps() const {
    return simt::grid_size() * (simt::block_size() / simt::kWarp);
  }
  TERSE_DEVICE uint32_t threads() const { return is_block_ ? simt::block_size() : simt::kWarp; }
  TERSE_DEVICE uint32_t thread() const {
    return is_block_ ? simt::thread_index() : simt::thread_index() % simt::kWarp;
  }

  TERSE_DEVICE void sync() const {
    if (is_block_)
      simt::sync_block();
    else
      simt::sync_warp();
  }

  // Returns true if it is true on one of the unit's first threads, as many as a warp has. Before
  // the next time the unit syncs.
  TERSE_DEVICE bool any(bool own, uint32_t& shared) const {
    const bool of_warp = simt::ballot(own) != 0;
    if (!is_block_) return of_warp;
    if (simt::thread_index() == 0) simt::shared_store(shared, uint32_t{of_warp});
    simt::sync_block();
    return simt::shared_load(shared) != 0;
  }

 private:
  const bool is_block_;
  const uint32_t warp_;
};

class Meetings {
 public:
  // `vote`: memory of the thread block.
  TERSE_DEVICE Meetings(const Unit& unit, const Exchange& exchange, uint32_t& vote)
      : unit_(unit), exchange_(exchange), vote_(vote) {}

  TERSE_DEVICE WindowHeader* header(uint32_t rank) const {
    return reinterpret_cast<WindowHeader*>(exchange_.window[rank]);
  }

  // Returns true if the unit has no call to make any more. All its threads ask.
  TERSE_DEVICE bool is_left() const { return unit_.any(unit_.thread() == 0 && is_over(), vote_); }

  // Ends the call on all units, and all later ones, if it is the first unit that leaves: it learns
  // of all that ends a call but of what report_left() says, and has reported it.
  TERSE_DEVICE void give_up() const {
    if (unit_.index() == 0 && unit_.thread() == 0) end_all();
  }

  // Raises the unit's flag at all peers, behind what it has stored, and waits for theirs. Returns
  // false if the rank gives up.
  TERSE_DEVICE bool meet(Meeting meeting, uint32_t epoch, uint32_t last) const {
    unit_.sync();
    const uint32_t peer = unit_.thread();
    bool gives_up = false;
    const codec::CallHeader* other = nullptr;
    if (peer < exchange_.ranks && peer != exchange_.self) {
      if (unit_.index() == 0 && meeting == Meeting::kFirst) name_call(peer);
      simt::release(&flags(peer, meeting)[exchange_.self],
                    uint64_t{exchange_.digest} << 32 | epoch);
      gives_up = !wait(peer, &flags(exchange_.self, meeting)[peer], epoch,
                       meeting == Meeting::kFirst ? last : epoch, other);
    }
    if (unit_.index() == 0) report_one(other);
    gives_up = unit_.any(gives_up, vote_);
    unit_.sync();
    return !gives_up;
  }

 private:
  // Returns true if this rank has left a call, whose places peers may still read: also one on other
  // windows, which the first unit finds reported.
  TERSE_DEVICE bool is_over() const {
    if (is_in_vain()) return true;
    const codec::Mismatch* const report = exchange_.report;
    return unit_.index() == 0 && report != nullptr &&
           (simt::relaxed_load(&report->found) != 0 || simt::relaxed_load(&report->left) != 0);
  }

  TERSE_DEVICE void name_call(uint32_t peer) const {
    codec::CallHeader& there = header(peer)->from[exchange_.self].call;
    TERSE_UNROLL
    for (uint32_t i = 0; i < codec::CallHeader::kWords; ++i)
      simt::store(&there.word[i], exchange_.call.word[i]);
  }

  // Waits for a peer's flag. Returns false if the peer is at another call, which is `other` then,
  // or has left, or the wait is in vain.
  TERSE_DEVICE bool wait(uint32_t peer, const uint64_t* flag, uint32_t epoch, uint32_t last,
                         const codec::CallHeader*& other) const {
    const WindowHeader::FromRank& theirs = header(exchange_.self)->from[peer];
    TERSE_NO_UNROLL
    for (uint32_t spins = 1;; ++spins) {
      const uint64_t value = simt::acquire(flag);
      if (has_come(value, epoch)) {
        // A flag behind the last lap is of the peer's next call: it has found this one alike.
        const bool is_alike = value >> 32 == exchange_.digest || has_come(value, last + 1);
        if (!is_alike) other = &theirs.call;
        return is_alike;
      }
      if (spins % simt::kSpinsPerLook == 0) {
        if (is_in_vain()) return false;
        // In this order: a peer comes to a later call in steps, or leaves, after this one.
        const uint64_t in_steps = simt::acquire(&theirs.number_in_steps);
        const bool has_left = in_steps == kBehindAll || is_known_to_have_left(peer);
        if ((has_left || is_instead(in_steps)) && !has_come(simt::relaxed_load(flag), epoch)) {
          if (has_left)
            report_left(peer);
          else
            other = &theirs.in_steps;
          return false;
        }
      }
      simt::pause();
    }
  }

  // Returns true if a flag has come to an epoch. Epochs wrap around.
  TERSE_DEVICE static bool has_come(uint64_t flag, uint32_t epoch) {
    return static_cast<int32_t>(static_cast<uint32_t>(flag) - epoch) >= 0;
  }

  // Returns true if the host has ended all calls, or a unit of the rank gives up.
  TERSE_DEVICE bool is_in_vain() const {
    return simt::relaxed_load(exchange_.abort) != 0 ||
           simt::relaxed_load(&header(exchange_.self)->gives_up) != 0;
  }

  // Returns true if a peer does this call in steps, or a later one, of which the first unit knows.
  TERSE_DEVICE bool is_instead(uint64_t number_in_steps) const {
    return unit_.index() == 0 && exchange_.number != 0 && number_in_steps >= exchange_.number;
  }

  // Returns true if the host has seen the end of a peer's process.
  TERSE_DEVICE bool is_known_to_have_left(uint32_t peer) const {
    return exchange_.left != nullptr && (simt::relaxed_load(exchange_.left) >> peer & 1) != 0;
  }

  // Any unit may, and any of those that do is heard.
  TERSE_DEVICE void report_left(uint32_t peer) const {
    if (exchange_.report != nullptr) simt::release_to_host(&exchange_.report->left, peer + 1);
    end_all();
  }

  TERSE_DEVICE void end_all() const { simt::relaxed_store(&header(exchange_.self)->gives_up, 1); }

  // Reports a peer's call, of those that lanes have found the first one, unless there is a report.
  TERSE_DEVICE void report_one(const codec::CallHeader* other) const {
    const uint32_t found = simt::ballot(other != nullptr);
    const uint32_t behind = uint32_t{2} << simt::thread_index() % simt::kWarp;
    codec::Mismatch* const to = exchange_.report;
    if (other == nullptr || (found & (behind - 1)) != behind / 2 || to == nullptr) return;
    if (simt::relaxed_load(&to->found) != 0) return;
    for (uint32_t i = 0; i < codec::CallHeader::kWords; ++i) {
      simt::store(&to->own.word[i], exchange_.call.word[i]);
      simt::store(&to->other.word[i], simt::load(&other->word[i]));
    }
    simt::release_to_host(&to->found, 1);
  }

  TERSE_DEVICE uint64_t* flags(uint32_t rank, Meeting meeting) const {
    return header(rank)->flag[static_cast<uint32_t>(meeting)][unit_.index()];
  }

  const Unit unit_;
  const Exchange& exchange_;
  uint32_t& vote_;
};

}  // namespace terse::kernels
