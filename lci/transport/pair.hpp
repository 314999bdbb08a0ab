// One connection of two processes, in set-up or in use: the control connection, the steps of the
// set-up, and the lci runtime of two ranks that comes of it. Made by a hub, shared with the program
// above. Threads: single, together with its hub; the runtime as runtimes are. Always true: no call
// waits for the peer; a set-up ends, connected or closed, within its time; a pair that is closed
// stays so and says why.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lci/base/unshared.hpp"
#include "lci/boot/fd.hpp"
#include "lci/boot/identity.hpp"
#include "lci/boot/key_exchange.hpp"
#include "lci/handles.hpp"
#include "lci/transport/control_stream.hpp"
#include "lci/transport/pair_runtime.hpp"
#include "lci/transport/setup_options.hpp"

namespace lci::transports {

// Both hubs' part in the name of a connection; its number tells apart several of the same hubs.
struct pair_name {
  std::string peer;  // id of the other hub, 32 digits
  std::uint32_t number = 0;
  bool operator==(const pair_name&) const = default;
};

// Who watches the sockets: the hub.
class pair_owner {
 public:
  virtual const setup_options& options() const noexcept = 0;
  virtual const global_attr_t& defaults() const noexcept = 0;
  virtual const boot::identity& self() const noexcept = 0;
  virtual clock::time_point now() const noexcept = 0;
  // fd: of that pair, to be watched for input, and for room if is_writing.
  virtual void watch(class pair& one, int fd, bool is_writing) = 0;
  virtual void unwatch(int fd) noexcept = 0;
  // It is connected or closed. One that is closed does not call its owner any more.
  virtual void is_settled(class pair& one) noexcept = 0;
  virtual void forget(class pair& one) noexcept = 0;

 protected:
  ~pair_owner() = default;
};

class pair : public std::enable_shared_from_this<pair> {
 public:
  enum class state { connecting, connected, closed };
  static constexpr std::size_t MOST_EARLY = 512 * 1024;  // bytes of messages, with their heads
  ~pair();
  pair(const pair&) = delete;
  pair& operator=(const pair&) = delete;

  state now() const noexcept;
  // Why it is closed, for people: names the step of a set-up that failed.
  const std::string& why() const noexcept { return why_; }
  // Typed; null: not closed, or in an orderly way.
  std::exception_ptr problem() const noexcept { return problem_; }
  // The next steps of the set-up; control messages. Answers whether something happened.
  bool progress();
  // The control connection, and for what it is to be watched; -1: there is none now.
  int fd() const noexcept;
  bool wants_write() const noexcept;

  // Once connected, until close(): also after the peer has ended, so that what was begun can be
  // ended. One device; operations with rank 1 - me().
  runtime_t runtime() const noexcept;
  device_t device() const noexcept;
  int me() const noexcept { return me_; }  // 1: this side has called
  // Id of the peer's hub.
  const pair_name& name() const noexcept { return name_; }

  // A control message of at most control_stream::MOST_BODY bytes, in order. False: the peer has not
  // read what was told before; try again after progress(). Throws argument_error for a longer one
  // and when it is not connected.
  bool tell(std::string_view message);
  // Called by progress(); does not throw; may close the pair.
  std::function<void(std::string_view)> on_message;
  // What came before there was an on_message, which may be in the same progress() as the end of the
  // set-up.
  std::vector<std::string> take_early() {
    early_bytes_ = 0;
    return std::exchange(early_, {});
  }
  // Whether the peer has sent more than has come. When it leaves, the networks have a time to bring
  // that, which begins anew with each call.
  void expect_more(bool more) noexcept;
  // No more comes from the peer. Once connected, until close().
  bool has_peer_ended() const noexcept;
  // Orderly: the peer is told. Frees the runtime. What has not completed is dropped, and its
  // objects are not signalled, as after a death: the class above ends its own operations first.
  // sends_rest: what is complete and may still be in this process goes out first, and so does to
  // networks that this side leaves: for which a peer that does not read makes it wait, up to the
  // LEAVE_MS of the network.
  void close(bool sends_rest = true) noexcept;
  // The networks that carry it; before that the step of the set-up.
  std::string describe() const;

  // For the hub. A call to where a hub listens, and one that has been let in.
  pair(pair_owner& owner, pair_name name);
  void call(const sockaddr_storage& to, socklen_t size, const boot::job_key& key);
  void let_in(control_stream&& stream);
  // The time of the set-up is over, or the hub ends.
  clock::time_point due() const noexcept { return due_; }
  void expire();
  void end_owner() noexcept;
  // The peer knows of it: it has called itself, or was told the number and has not refused.
  bool is_heard() const noexcept { return is_heard_; }

 private:
  // awaiting: the peer has called as well, and its connection counts.
  enum class step {
    calling,
    greeting,
    proving,
    awaiting,
    settling,
    introducing,
    readying,
    connected,
    closed
  };
  static const char* name_of(step s) noexcept;
  bool finish_call();
  bool read_answer();
  bool serve_stream();
  void handle(control_stream::frame&& got);
  void handle_setup(control_stream::frame&& got);
  void keep_early(std::string&& message);
  void settle(std::string_view theirs);
  void introduce(const std::string& theirs);
  void say(frame_type type, std::string_view body);
  void say_settings();
  void watch();
  void drop_socket() noexcept;
  // The end: by an error of this side, which the peer is told; or by what the peer did.
  void fail(const std::exception_ptr& problem, const std::string& why, bool is_told) noexcept;
  // With the step of the set-up, if that is not over.
  std::string in_step(const std::string& why) const;
  void peer_failed(const std::string& why);
  void peer_refused(const std::string& said);
  void peer_left();
  void become(step s) noexcept;

  pair_owner* owner_;  // null once it is closed, or the hub has ended
  const pair_name name_;
  int me_ = 0;
  step step_ = step::awaiting;
  bool is_heard_ = true;
  clock::time_point due_;
  std::string why_;
  std::exception_ptr problem_;
  std::vector<std::string> early_;
  std::size_t early_bytes_ = 0;
  // Until the connection is sealed.
  base::descriptor socket_;
  base::unshared is_ours_;  // socket_: it closes when this process ends
  std::optional<boot::job_key> key_;
  std::unique_ptr<boot::key_exchange> exchange_;
  std::string answer_;
  // From then on.
  std::optional<control_stream> stream_;
  std::unique_ptr<pair_runtime> runtime_;
  bool expects_more_ = false;
};

}  // namespace lci::transports
