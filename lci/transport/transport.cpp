// The public classes of a transport: arguments are checked here.
#include "lci/transport.hpp"

#include "lci/comp/signal.hpp"
#include "lci/errors.hpp"
#include "lci/runtime/global.hpp"
#include "lci/transport/core.hpp"

namespace lci {

namespace {

void check_options(const transport_options& options) {
  transports::check_seconds("transport", "valid_s", options.valid_s);
  transports::check_seconds("transport", "timeout_s", options.timeout_s);
  transports::check_seconds("transport", "spin_s", options.spin_s);
}

void check_read(const transfer_options& options) {
  if (options.notify) throw argument_error("read: notify is for writes");
}

std::shared_ptr<transports::core> core_of(const std::shared_ptr<transports::link>& link) {
  if (link == nullptr) throw argument_error("peer: it refers to no program; see is_valid()");
  auto core = link->transport();
  if (core == nullptr)
    throw peer_failure_error(link->number(), "the transport of the peer has ended");
  return core;
}

using request = transports::core::request;

std::vector<request> requests_of(const transport::batch& batch) {
  std::vector<request> all;
  all.reserve(batch.entries().size());
  for (const auto& one : batch.entries()) all.push_back({one.local, one.remote, one.is_write});
  return all;
}

transfer_options with_note(bool notify, uint64_t tag) {
  transfer_options options;
  options.notify = notify;
  options.tag = tag;
  return options;
}

}  // namespace

bool transport::supported(std::string* why_not) {
  const std::optional<std::string> why = transports::hub::why_unsupported();
  if (why && why_not != nullptr) *why_not = *why;
  return !why;
}

transport::transport(const transport_options& options) {
  check_options(options);
  if (std::string why; !supported(&why)) throw backend_error("transport: " + why);
  core_ = std::make_shared<transports::core>(options);
  if (options.progress_thread) core_->start_thread();
}

transport::~transport() {
  // In a child of fork() it is the parent's, whose threads may have held its locks: it stays.
  if (runtime::global().is_forked)
    new std::shared_ptr<transports::core>(std::move(core_));
  else
    core_->shut_down();
}

std::string transport::bind() { return core_->bind(); }
transport::peer transport::connect(const std::string& url) { return peer(core_->connect(url)); }
transport::peer transport::accept() { return peer(core_->accept()); }

std::vector<transport::peer> transport::peers() {
  std::vector<peer> all;
  for (auto& one : core_->links()) all.push_back(peer(std::move(one)));
  return all;
}

// What runs callbacks keeps the core: one of them may be the end of this transport.
bool transport::connected() { return core_->connected(); }
bool transport::wait_connected(double limit_s) {
  transports::check_limit("wait_connected", limit_s);
  const auto alive = core_;
  return alive->wait_connected(limit_s);
}
void transport::close() {
  const auto alive = core_;
  alive->close();
}

transfer transport::write(const memory_view& local, const remote_buffer& remote, bool notify,
                          uint64_t tag) {
  return write(local, remote, with_note(notify, tag));
}
transfer transport::write(const memory_view& local, const remote_buffer& remote,
                          const transfer_options& options) {
  const auto alive = core_;
  const request one{local, remote, true};
  return alive->submit(nullptr, {&one, 1}, "write", options);
}
transfer transport::read(const memory_view& local, const remote_buffer& remote,
                         const transfer_options& options) {
  check_read(options);
  const auto alive = core_;
  const request one{local, remote, false};
  return alive->submit(nullptr, {&one, 1}, "read", options);
}
transfer transport::submit(const batch& all, const transfer_options& options) {
  const auto alive = core_;
  return alive->submit(nullptr, requests_of(all), "submit", options);
}

notification transport::wait_for_write() {
  const auto alive = core_;
  notification note;
  alive->wait_for_note(-1, &note);
  return note;
}
bool transport::wait_for_write(double limit_s, notification* out) {
  transports::check_limit("wait_for_write", limit_s);
  const auto alive = core_;
  return alive->wait_for_note(limit_s, out);
}
transfer transport::next_write() { return core_->next_note(); }
int transport::event_fd() const { return core_->event_fd(); }
bool transport::process() {
  const auto alive = core_;
  return alive->process();
}
std::string transport::describe() { return core_->describe(); }

int transport::peer::number() const { return link_ == nullptr ? -1 : link_->number(); }
bool transport::peer::connected() const {
  const auto core = link_ == nullptr ? nullptr : link_->transport();
  return core != nullptr &&
         core->look([&] { return link_->now() == transports::link::state::connected; });
}
std::string transport::peer::why_closed() const {
  const auto core = link_ == nullptr ? nullptr : link_->transport();
  return core == nullptr ? "the transport has ended" : core->look([&] { return link_->why(); });
}
void transport::peer::close() { core_of(link_)->close(*link_); }
std::string transport::peer::describe() const {
  return core_of(link_)->look([&] { return link_->describe(); });
}

transfer transport::peer::write(const memory_view& local, const remote_buffer& remote, bool notify,
                                uint64_t tag) {
  return write(local, remote, with_note(notify, tag));
}
transfer transport::peer::write(const memory_view& local, const remote_buffer& remote,
                                const transfer_options& options) {
  const request one{local, remote, true};
  return core_of(link_)->submit(link_.get(), {&one, 1}, "write", options);
}
transfer transport::peer::read(const memory_view& local, const remote_buffer& remote,
                               const transfer_options& options) {
  check_read(options);
  const request one{local, remote, false};
  return core_of(link_)->submit(link_.get(), {&one, 1}, "read", options);
}
transfer transport::peer::submit(const batch& all, const transfer_options& options) {
  return core_of(link_)->submit(link_.get(), requests_of(all), "submit", options);
}

transport::batch& transport::batch::write(const memory_view& local, const remote_buffer& remote) {
  entries_.push_back({local, remote, true});
  return *this;
}
transport::batch& transport::batch::read(const memory_view& local, const remote_buffer& remote) {
  entries_.push_back({local, remote, false});
  return *this;
}

namespace {

void add_all(std::vector<transport::batch::entry>& to, const std::vector<memory_view>& locals,
             const remote_buffer& remote, bool is_write) {
  std::size_t sum = 0;
  for (const memory_view& one : locals) sum += one.size();
  if (sum != remote.size())
    throw argument_error("batch: the views have " + std::to_string(sum) +
                         " bytes together, the remote buffer " + std::to_string(remote.size()));
  std::size_t at = 0;
  for (const memory_view& one : locals) {
    to.push_back({one, remote.slice(at, one.size()), is_write});
    at += one.size();
  }
}

}  // namespace

transport::batch& transport::batch::write(const std::vector<memory_view>& locals,
                                          const remote_buffer& remote) {
  add_all(entries_, locals, remote, true);
  return *this;
}
transport::batch& transport::batch::read(const std::vector<memory_view>& locals,
                                         const remote_buffer& remote) {
  add_all(entries_, locals, remote, false);
  return *this;
}

}  // namespace lci
