#include "lci/boot/kv_member.hpp"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "lci/errors.hpp"

namespace lci::boot::kv {

member::member(const char* backend, int rank, int size)
    : backend_(backend), rank_(rank), size_(size), store_(size) {
  encode_hello(out_, rank, size);
}

void member::put(std::string_view key, std::string_view value) {
  check_put(backend_, key, value);
  encode_put(out_, key, value);
}

void member::begin_fence() {
  if (!failure_.empty()) fail(failure_);
  encode_arrive(out_, round_);
  pending_ = true;
}

std::string_view member::get(int rank, std::string_view key) const {
  check_rank(backend_, rank, size_);
  const auto found = store_.find(rank, key);
  if (!found) throw_missing_key(backend_, rank, key);
  return *found;
}

std::vector<departure> member::take_news() { return std::exchange(news_, {}); }

void member::leave() { encode_leave(out_); }

std::string member::take_output() { return std::exchange(out_, {}); }

void member::receive(std::string_view bytes) {
  // Frames before the damaged one count: the reason of a failure may be among them.
  in_.feed(bytes);
  while (const auto f = in_.next()) {
    try {
      handle(*f);
    } catch (const std::bad_alloc&) {
      in_.again(*f);
      throw;
    }
  }
  if (in_.is_broken()) fail("the server's answer is not of this protocol");
}

void member::fail(const std::string& why) {
  failure_ = why;
  throw backend_error(std::string(backend_) + ": rank " + std::to_string(rank_) + " of " +
                      std::to_string(size_) + ": " + why);
}

void member::handle(const frame& f) {
  switch (f.type) {
    case frame_type::welcome: {
      // Another rank's welcome would mean that two processes were confused.
      const auto body = decode_welcome(f.body);
      if (!body || body->rank != rank_ || body->size != size_) break;
      welcome_ = true;
      return;
    }
    case frame_type::value:
      return handle_value(f, false);
    case frame_type::shared: {
      const auto size = decode_shared(f.body);
      if (!size || !file_) break;
      return handle_shared(*size);
    }
    // The number guards against an answer to a fence that was abandoned.
    case frame_type::released:
      if (!pending_ || decode_round(f.body) != round_) break;
      ++round_;
      pending_ = false;
      return;
    case frame_type::fail:
      fail(std::string(f.body));
    case frame_type::gone: {
      const auto body = decode_ended(f.body);
      if (!body || body->rank >= size_) break;
      news_.push_back({body->rank, std::string(body->why)});
      return;
    }
    case frame_type::left: {
      const auto ranks = decode_left(f.body);
      if (!ranks || std::ranges::any_of(*ranks, [this](int r) { return r >= size_; })) break;
      // All or, without memory, none: then the frame is handled again.
      std::vector<departure> told;
      told.reserve(ranks->size());
      for (const int rank : *ranks) told.push_back({rank, LEFT_TEXT, true});
      news_.reserve(news_.size() + told.size());
      std::ranges::move(told, std::back_inserter(news_));
      return;
    }
    case frame_type::leave:
      server_left_ = true;
      return;
    case frame_type::hello:
    case frame_type::put:
    case frame_type::arrive:
      break;  // only members send these
  }
  fail_for(f);
}

void member::handle_value(const frame& f, bool is_shared) {
  const auto body = decode_value(f.body);
  if (!body || body->rank >= size_) fail_for(f);
  // What is put again and again is copied, or every round would leave its file behind.
  if (is_shared && !store_.find(body->rank, body->key))
    store_.refer(body->rank, body->key, body->value);
  else
    store_.set(body->rank, body->key, body->value);
}

// Where memory runs out, the frame is handled again: the file stays until all of it is handled.
void member::handle_shared(std::uint64_t size) {
  try {
    files_.emplace_back(file_, static_cast<std::size_t>(size));
  } catch (const backend_error& why) {
    fail(why.what());
  }
  std::string_view rest = files_.back().view();
  bool is_broken = false;
  const std::size_t referred = store_.referred();
  while (const auto f = take_frame(rest, is_broken)) {
    if (f->type == frame_type::shared) fail_for(*f);
    if (f->type == frame_type::value)
      handle_value(*f, true);
    else
      handle(*f);
  }
  if (is_broken || !rest.empty()) fail("the server's file is not of this protocol");
  if (store_.referred() == referred) files_.pop_back();
  file_.reset();
}

void member::take_file(base::descriptor file) {
  if (file_) fail("the server sent two files for one frame");
  file_ = std::move(file);
}

void member::fail_for(const frame& f) {
  fail("the server sent a frame that does not belong here (type " +
       std::to_string(static_cast<int>(f.type)) + ")");
}

}  // namespace lci::boot::kv
