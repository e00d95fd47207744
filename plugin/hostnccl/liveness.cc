#include "liveness.h"

#include <algorithm>
#include <cstring>

#include "nccl_log.h"

namespace hostnccl {

using std::chrono::milliseconds;

Liveness::Liveness(int rank, int size, std::vector<Socket> links, milliseconds timeout)
    : rank_(rank), size_(size), timeout_(timeout) {
  const Clock::time_point now = Clock::now();
  next_beat_ = now;
  for (size_t i = 0; i < links.size(); ++i) {
    if (!links[i].open()) continue;  // the hub's own place
    links[i].wake_by(sizeof(Notice));
    links_.push_back({is_hub() ? static_cast<int>(i) : 0, std::move(links[i]), now});
  }
}

std::vector<int> Liveness::fds() const {
  std::vector<int> fds;
  for (const Link& link : links_) {
    if (link.socket.open()) fds.push_back(link.socket.fd());
  }
  return fds;
}

void Liveness::service() {
  for (Link& link : links_) read(link);
  const Clock::time_point now = Clock::now();
  if (now < next_beat_) return;
  // We did not run, and so did not listen: perhaps the whole job was suspended.
  if (now - next_beat_ > timeout_ / 2) {
    for (Link& link : links_) link.last_heard = now;
  }
  next_beat_ = now + std::clamp(timeout_ / 4, milliseconds(1), milliseconds(1000));
  notify(make(Kind::kBeat));
  for (Link& link : links_) {
    if (link.socket.open() && now - link.last_heard > timeout_) {
      lose(link,
           fmt::format("was silent for {:.1f} s", static_cast<double>(timeout_.count()) / 1000));
    }
  }
}

void Liveness::report_failure(const Failure& failure) {
  if (failure_) return;
  failure_ = failure;
  notify(make(Kind::kFailure, fmt::format("rank {} gave up: {}", rank_, failure.text())));
}

void Liveness::record(uint64_t number, uint64_t digest) {
  recorded_[number % recorded_.size()] = {number, digest};
  for (const auto& [rank, position] : positions_) compare(rank, position);
}

void Liveness::report_position(const Position& position) {
  Notice notice = make(Kind::kPosition, position.text);
  notice.number = position.number;
  notice.digest = position.digest;
  notify(notice);
}

void Liveness::say_goodbye(uint64_t collectives_done) {
  Notice notice = make(Kind::kGoodbye);
  notice.number = collectives_done;
  notify(notice);
  depart(rank_, collectives_done);
}

int Liveness::departed_before(uint64_t number) const {
  for (const auto& [rank, done] : departed_) {
    if (rank != rank_ && done < number) return rank;
  }
  return -1;
}

Liveness::Notice Liveness::make(Kind kind, const std::string& text) const {
  Notice notice;
  notice.kind = kind;
  notice.rank = rank_;
  std::memcpy(notice.text, text.data(), std::min(text.size(), sizeof(notice.text) - 1));
  return notice;
}

// A full socket means a peer that does not read: the silence check will find it, unless the socket
// took a part of the notice, which nothing may follow.
void Liveness::notify(const Notice& notice, int except) {
  for (Link& link : links_) {
    if (!link.socket.open() || link.rank == except) continue;
    if (!link.socket.try_send(&notice, sizeof(notice))) lose(link, "does not read");
  }
}

void Liveness::read(Link& link) {
  while (link.socket.open()) {
    Notice notice;
    switch (link.socket.try_receive(&notice, sizeof(notice))) {
      case Socket::Received::kNothingYet:
        return;
      case Socket::Received::kEnd:
        return lose(link, "ended without a goodbye");
      case Socket::Received::kRecord:
        link.last_heard = Clock::now();
        notice.text[sizeof(notice.text) - 1] = '\0';
        handle(notice);
    }
  }
}

void Liveness::handle(const Notice& notice) {
  switch (notice.kind) {
    case Kind::kBeat:
      return;
    case Kind::kGoodbye:
      if (is_hub()) notify(notice, notice.rank);
      return depart(notice.rank, notice.number);
    case Kind::kEveryoneLeft:
      everyone_left_ = true;
      return;
    case Kind::kFailure:
      if (failure_) return;
      if (is_hub()) notify(notice, notice.rank);
      failure_ = Failure(ncclRemoteError, notice.text);
      return;
    case Kind::kPosition:
      if (is_hub()) notify(notice, notice.rank);
      positions_[notice.rank] = {notice.number, notice.digest, notice.text};
      return compare(notice.rank, positions_[notice.rank]);
  }
}

void Liveness::lose(Link& link, const std::string& cause) {
  if (before_close_) before_close_(link.socket.fd());
  link.socket.close();
  if (has_departed(link.rank)) return check_everyone_left();
  const std::string text = fmt::format("rank {} {}", link.rank, cause);
  log(LogLevel::kInfo, rank_, "liveness: {}", text);
  depart(link.rank, 0);
  if (failure_) return;
  failure_ = Failure(ncclRemoteError, text);
  notify(make(Kind::kFailure, text));
}

void Liveness::depart(int rank, uint64_t collectives_done) {
  departed_.emplace(rank, collectives_done);
  check_everyone_left();
}

void Liveness::check_everyone_left() {
  if (everyone_left_) return;
  if (is_hub()) {
    everyone_left_ = static_cast<int>(departed_.size()) == size_;
    if (everyone_left_) notify(make(Kind::kEveryoneLeft));
  } else {  // without the hub there is nobody left to hear of the others
    everyone_left_ = has_departed(rank_) && fds().empty();
  }
}

void Liveness::compare(int rank, const Position& position) {
  const Recorded& ours = recorded_[position.number % recorded_.size()];
  if (ours.number != position.number || ours.digest == position.digest) return;
  report_failure({ncclInvalidUsage,
                  fmt::format("mismatched calls: collective {} is {} on rank {}, and another here",
                              position.number, position.text, rank)});
}

}  // namespace hostnccl
