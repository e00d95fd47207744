#include "liveness.h"

#include <algorithm>
#include <cstring>

#include "log.h"

namespace hostnccl {

using std::chrono::milliseconds;

Liveness::Liveness(int rank, int size, std::vector<Socket> links, milliseconds timeout)
    : rank_(rank), size_(size), timeout_(timeout) {
  const Clock::time_point now = Clock::now();
  next_beat_ = now;
  for (size_t i = 0; i < links.size(); ++i) {
    if (!links[i].open()) continue;  // the hub's own place
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

void Liveness::Service() {
  for (Link& link : links_) Read(link);
  const Clock::time_point now = Clock::now();
  if (now < next_beat_) return;
  next_beat_ = now + std::clamp(timeout_ / 4, milliseconds(1), milliseconds(1000));
  Tell(Make(Kind::kBeat));
  for (Link& link : links_) {
    if (link.socket.open() && now - link.heard > timeout_) {
      Lose(link,
           fmt::format("was silent for {:.1f} s", static_cast<double>(timeout_.count()) / 1000));
    }
  }
}

void Liveness::ReportFailure(const Failure& failure) {
  if (failure_) return;
  failure_ = failure;
  Tell(Make(Kind::kFailure, fmt::format("rank {} gave up: {}", rank_, failure.text())));
}

void Liveness::Record(uint64_t number, uint64_t digest) {
  recorded_[number % recorded_.size()] = {number, digest};
  for (const auto& [rank, position] : positions_) Compare(rank, position);
}

void Liveness::ReportPosition(const Position& position) {
  Notice notice = Make(Kind::kPosition, position.text);
  notice.number = position.number;
  notice.digest = position.digest;
  Tell(notice);
}

void Liveness::SayGoodbye(uint64_t collectives_done) {
  Notice notice = Make(Kind::kGoodbye);
  notice.number = collectives_done;
  Tell(notice);
  Depart(rank_, collectives_done);
}

int Liveness::DepartedBefore(uint64_t number) const {
  for (const auto& [rank, done] : departed_) {
    if (rank != rank_ && done < number) return rank;
  }
  return -1;
}

Liveness::Notice Liveness::Make(Kind kind, const std::string& text) const {
  Notice notice;
  notice.kind = kind;
  notice.rank = rank_;
  std::memcpy(notice.text, text.data(), std::min(text.size(), sizeof(notice.text) - 1));
  return notice;
}

// A full socket means a peer that does not read: the silence check will find it.
void Liveness::Tell(const Notice& notice, int except) {
  for (Link& link : links_) {
    if (link.socket.open() && link.rank != except) link.socket.TrySend(&notice, sizeof(notice));
  }
}

void Liveness::Read(Link& link) {
  while (link.socket.open()) {
    Notice notice;
    switch (link.socket.TryReceive(&notice, sizeof(notice))) {
      case Socket::Received::kNothingYet:
        return;
      case Socket::Received::kEnd:
        return Lose(link, "ended without a goodbye");
      case Socket::Received::kRecord:
        link.heard = Clock::now();
        notice.text[sizeof(notice.text) - 1] = '\0';
        Handle(notice);
    }
  }
}

void Liveness::Handle(const Notice& notice) {
  switch (notice.kind) {
    case Kind::kBeat:
      return;
    case Kind::kGoodbye:
      if (is_hub()) Tell(notice, notice.rank);
      return Depart(notice.rank, notice.number);
    case Kind::kEveryoneLeft:
      everyone_left_ = true;
      return;
    case Kind::kFailure:
      if (failure_) return;
      if (is_hub()) Tell(notice, notice.rank);
      failure_ = Failure(ncclRemoteError, notice.text);
      return;
    case Kind::kPosition:
      if (is_hub()) Tell(notice, notice.rank);
      positions_[notice.rank] = {notice.number, notice.digest, notice.text};
      return Compare(notice.rank, positions_[notice.rank]);
  }
}

void Liveness::Lose(Link& link, const std::string& cause) {
  link.socket.Close();
  if (HasDeparted(link.rank)) return CheckEveryoneLeft();
  const std::string text = fmt::format("rank {} {}", link.rank, cause);
  Log(LogLevel::kInfo, rank_, "liveness: {}", text);
  Depart(link.rank, 0);
  if (failure_) return;
  failure_ = Failure(ncclRemoteError, text);
  Tell(Make(Kind::kFailure, text));
}

void Liveness::Depart(int rank, uint64_t collectives_done) {
  departed_.emplace(rank, collectives_done);
  CheckEveryoneLeft();
}

void Liveness::CheckEveryoneLeft() {
  if (everyone_left_) return;
  if (is_hub()) {
    everyone_left_ = static_cast<int>(departed_.size()) == size_;
    if (everyone_left_) Tell(Make(Kind::kEveryoneLeft));
  } else {  // without the hub there is nobody left to hear of the others
    everyone_left_ = HasDeparted(rank_) && fds().empty();
  }
}

void Liveness::Compare(int rank, const Position& position) {
  const Recorded& ours = recorded_[position.number % recorded_.size()];
  if (ours.number != position.number || ours.digest == position.digest) return;
  ReportFailure({ncclInvalidUsage,
                 fmt::format("mismatched calls: collective {} is {} on rank {}, and another here",
                             position.number, position.text, rank)});
}

}  // namespace hostnccl
