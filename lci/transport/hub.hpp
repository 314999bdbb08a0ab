// All connections of one transport: listens, lets in holders of a URL's secret, calls others, and
// watches all sockets with one epoll descriptor. Owned by the class above, which owns the pairs
// with it. Threads: single, together with its pairs. Always true: no call blocks; a stranger keeps
// no other waiting; when nothing arrives and no set-up is under way, the descriptor is quiet.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lci/attr.hpp"
#include "lci/base/unshared.hpp"
#include "lci/boot/fd.hpp"
#include "lci/boot/identity.hpp"
#include "lci/transport/invitations.hpp"
#include "lci/transport/pair.hpp"
#include "lci/transport/setup_options.hpp"
#include "lci/transport/strangers.hpp"
#include "lci/transport/url.hpp"

namespace lci::transports {

class hub final : private pair_owner {
 public:
  static constexpr int MOST_ACCEPTS = 32;  // in a row
  static constexpr std::size_t MOST_WARNINGS = 10;

  // Why there can be no connections in this build, or nothing.
  static std::optional<std::string> why_unsupported();

  // Throws backend_error, argument_error for options that make no sense.
  explicit hub(setup_options options);
  ~hub();
  hub(const hub&) = delete;
  hub& operator=(const hub&) = delete;

  // Listens, from the first call on, and answers a URL with its own time and uses. Throws
  // backend_error.
  std::string bind();
  // Begins a connection with the hub that made the URL. If that hub calls this one as well, one
  // connection comes of it, and both get it: this call may find one that is there. Throws
  // argument_error for what is no URL, backend_error when the system refuses.
  std::shared_ptr<pair> connect(const std::string& text);
  // The next that was called by a peer, and is connected; null: none.
  std::shared_ptr<pair> accepted();
  // Listens no more; a peer in set-up without the program's asking, or not taken, is closed.
  void stop() noexcept;
  // Answers whether something happened.
  bool progress();
  int fd() const noexcept { return epoll_.get(); }
  const std::string& id() const noexcept { return self_.id(); }
  // Sockets of those who have not proven that they know a secret.
  std::size_t strangers_now() const noexcept { return strangers_.size(); }
  // Set-ups that have neither succeeded nor failed.
  std::size_t under_way_now() const noexcept { return under_way_.size(); }

 private:
  // The connections with one other hub.
  struct peer {
    std::uint32_t called = 0;  // the last number that connect() gave
    std::uint32_t over = 0;    // the largest of those that are closed
    std::uint32_t heard = 0;   // the last with which the peer has called
    std::map<std::uint32_t, pair*> pairs;
  };

  const setup_options& options() const noexcept override { return options_; }
  const global_attr_t& defaults() const noexcept override { return defaults_; }
  const boot::identity& self() const noexcept override { return self_; }
  clock::time_point now() const noexcept override;
  void watch(pair& one, int fd, bool is_writing) override;
  void unwatch(int fd) noexcept override;
  void is_settled(pair& one) noexcept override;
  void forget(pair& one) noexcept override;

  void listen();
  void add_to_epoll(int fd, std::uint32_t events);
  bool handle(int fd, std::uint32_t events);
  void accept_all();
  void warn(const std::string& what);
  void pause(std::optional<clock::time_point> until);
  std::shared_ptr<pair> make_pair(const pair_name& name);
  // Calls of that peer count as they did before a call that threw.
  void recount(const std::string& of, std::uint32_t called, std::uint32_t over) noexcept;
  // Of the numbers of its connections, those that are closed among them.
  static std::uint32_t largest_of(const peer& with) noexcept;
  void serve_stranger(int fd);
  void welcome(strangers::guest&& guest);
  void look_at_time();
  void set_timer() noexcept;
  pair* find(const pair_name& name) noexcept;

  const setup_options options_;
  const global_attr_t defaults_;
  const boot::identity self_;
  base::descriptor epoll_, timer_, listener_;
  base::unshared is_ours_;  // listener_
  int port_ = 0;
  strangers strangers_;
  invitations invitations_;
  struct watched {
    pair* one;
    bool is_writing;
  };
  std::unordered_map<int, watched> sockets_;                  // of pairs, by descriptor
  std::unordered_map<std::string, peer> peers_;               // by id
  std::unordered_map<pair*, std::shared_ptr<pair>> callers_;  // let in, not connected yet
  std::deque<std::shared_ptr<pair>> accepted_;
  // Set-ups under way, the one that runs out of time first in front.
  std::set<std::pair<clock::time_point, pair*>> under_way_;
  std::optional<clock::time_point> timer_at_;
  std::optional<clock::time_point> paused_until_;  // no peer is accepted for the moment
  std::size_t warnings_ = 0;
};

}  // namespace lci::transports
