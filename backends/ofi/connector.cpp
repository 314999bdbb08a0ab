#include "backends/ofi/connector.hpp"

#include <algorithm>
#include <cstring>
#include <exception>

#include "lci/base/log.hpp"
#include "lci/errors.hpp"
#include "lci/net/connected/address_text.hpp"

namespace lci::ofi {
namespace {

constexpr std::uint64_t LIFELINE_LOOK_MS = 50;
constexpr std::uint64_t LEAVE_MS = 500;
constexpr char CANNOT_CALL[] = "it cannot be reached";

}  // namespace

connector::connector(const opened_domain& domain, net::address_book& book, mem::arena& arena)
    : net::connected::connector<connector, device_queues, hello, contact>(book),
      domain_(domain),
      block_(arena, CELL_BYTES * (RECEIVES + SENDS), 4096),
      queues_(queues::open(domain, RECEIVES + SENDS, static_cast<std::size_t>(book.size()))),
      peers_(static_cast<std::size_t>(book.size())),
      cells_(RECEIVES + SENDS) {
  here_.id = net::connected::random_id(NAME);
  here_.name = queues_.name(domain);
  lifeline_ = std::make_unique<lifeline>(here_, static_cast<std::size_t>(book.size()));
  for (std::size_t i = 0; i < cells_.size(); ++i) cells_[i].at = block_.get() + CELL_BYTES * i;
  unposted_.reserve(RECEIVES);
  suspects_.reserve(peers_.size());
}

connector::~connector() { queues_.ep.reset(); }

void connector::start(regions& memory) {
  memory_ = &memory;
  for (std::uint32_t i = 0; i < RECEIVES; ++i) post_receive(cells_[i]);
  if (unposted_.size() == RECEIVES)
    throw backend_error("ofi: no receive for hellos could be posted on " + domain_.name);
}

// What the provider does not take now is tried again at a later look.
void connector::post_receive(cell& one) {
  void* local = nullptr;
  const bool is_registered = memory_->find_local(one.at, CELL_BYTES, mem::mem_kind::host, 0, local);
  if (!is_registered || fi_recv(queues_.ep.get(), one.at, CELL_BYTES, local, FI_ADDR_UNSPEC,
                                static_cast<ticket*>(&one)) != 0)
    unposted_.push_back(&one);
}

void connector::repost() {
  for (std::size_t n = unposted_.size(); n > 0; --n) {
    cell& one = *unposted_.back();
    unposted_.pop_back();
    post_receive(one);
  }
}

void connector::disconnect_called() {
  constexpr std::uint8_t LEAVES = net::connected::hello_flags::LEAVES;
  const std::uint64_t now = base::cpu_ticks();
  // Half of the time is for places for what is to be said, the rest for what was said last.
  const std::uint64_t said_by = now + LEAVE_MS / 2 * base::ticks_per_ms();
  const std::uint64_t deadline = now + LEAVE_MS * base::ticks_per_ms();
  caller_.for_each_called([&](connection& on, device_queues& q) {
    while (cell_for(LEAVES) == nullptr && base::cpu_ticks() < said_by) read_hellos();
    // What was read may have made it ready: then its device says it.
    if (on.state() == connection::stage::calling) say(on, q, LEAVES);
  });
  const auto is_out = [](const cell& one) { return one.is_free || one.to < 0; };
  while (!std::all_of(cells_.begin(), cells_.end(), is_out) && base::cpu_ticks() < deadline)
    read_hellos();
}

// Null while the rank's address is not known.
contact* connector::find(int rank) {
  contact& who = peers_[static_cast<std::size_t>(rank)];
  if (who.is_known) return &who;
  const std::string text = book_.lookup(rank);
  if (text.empty()) return nullptr;
  if (!fabric_address::parse(text, who.address))
    throw backend_error("ofi: the address of rank " + std::to_string(rank) + " is invalid");
  who.at = queues_.insert(domain_, who.address.name);
  who.is_watched.store(lifeline_->watch(rank, who.address), std::memory_order_relaxed);
  who.is_known = true;
  return &who;
}

std::string connector::why_out_of_reach(std::string_view address) const {
  fabric_address peer;
  // What makes no sense is an error when it is used.
  return fabric_address::parse(address, peer) ? here_.why_apart(peer) : "";
}

// No connection to that rank will be of use.
void connector::miss(int rank, const char* why) noexcept {
  peers_[static_cast<std::size_t>(rank)].missed = why;
  caller_.for_each_queues([&](device_queues& q) { q.miss(rank, why); });
}

void connector::add_queues(device_queues& q) {
  net::connected::connector<connector, device_queues, hello, contact>::add_queues(q);
  const std::lock_guard lock(mutex_);
  for (std::size_t rank = 0; rank < peers_.size(); ++rank)
    if (peers_[rank].missed != nullptr) q.miss(static_cast<int>(rank), peers_[rank].missed);
}

// Ends of processes.
void connector::before_look() noexcept {
  const std::uint64_t now = base::cpu_ticks();
  if (now < next_lifeline_look_) return;
  next_lifeline_look_ = now + LIFELINE_LOOK_MS * base::ticks_per_ms();
  for (const int rank : suspects_) judge(rank);
  suspects_.clear();
  lifeline_->look([&](int rank, lifeline::news what) { hear_news(rank, what); });
}

void connector::hear_news(int rank, lifeline::news what) noexcept {
  // Judged at the next look: a thread that was busy elsewhere has not read yet what has come.
  if (what == lifeline::news::silent) return suspects_.push_back(rank);
  contact& who = peers_[static_cast<std::size_t>(rank)];
  who.is_watched.store(false, std::memory_order_relaxed);
  if (what == lifeline::news::ended || (what == lifeline::news::refused && !who.was_heard))
    return miss(rank, "its process has ended");
  base::log::info("ofi", "rank %d cannot be watched; a firewall may block the connection", rank);
}

// On a network that loses packets the questions of the kernel may be what was lost.
void connector::judge(int rank) noexcept {
  contact& who = peers_[static_cast<std::size_t>(rank)];
  const bool is_doubted = was_heard_lately(rank);
  const bool is_watched = is_doubted && lifeline_->watch(rank, who.address);
  who.is_watched.store(is_watched, std::memory_order_relaxed);
  if (!is_doubted) return miss(rank, "its host is silent");
  base::log::info("ofi", "rank %d sends, but its host does not answer; %s", rank,
                  is_watched ? "it is asked again" : "it cannot be asked again");
}

// So lately that its host cannot have been silent as long as the lifeline has received nothing.
// Half of that time: what is read now may have come a while ago.
bool connector::was_heard_lately(int rank) const noexcept {
  std::uint64_t heard = 0;
  caller_.for_each_queues(
      [&](const device_queues& q) { heard = std::max(heard, q.heard_ticks(rank)); });
  const std::uint64_t lately = lifeline_->silence_ms() / 2 * base::ticks_per_ms();
  return heard != 0 && base::cpu_ticks() < heard + lately;
}

bool connector::read_some() {
  fi_cq_data_entry done[16];
  const ssize_t n = fi_cq_read(queues_.cq.get(), done, 16);
  if (n == -FI_EAGAIN) return false;
  if (n < 0) {
    read_error();
    return false;
  }
  hello said[16];
  std::size_t heard = 0;
  // All cells first: none is lost, whatever goes wrong behind.
  for (ssize_t i = 0; i < n; ++i)
    if (done_with(static_cast<cell&>(ticket_of(done[i].op_context)), done[i].len, said[heard]))
      ++heard;
  for (std::size_t i = 0; i < heard; ++i) hear(said[i]);
  return true;
}

void connector::read_hellos() {
  if (!unposted_.empty()) repost();
  for (int rounds = 0; rounds < 16 && read_some(); ++rounds) {
  }
}

// True if it had a hello for us.
bool connector::done_with(cell& one, std::size_t size, hello& said) {
  if (one.to >= 0) {
    one.is_free = true;
    return false;
  }
  const bool is_sound = decode(one.at, size, said);
  post_receive(one);
  return is_sound;
}

// A hello that cannot be sent: the rank is not there, or not yet.
void connector::read_error() {
  fi_cq_err_entry what{};
  if (fi_cq_readerr(queues_.cq.get(), &what, 0) != 1 || what.op_context == nullptr) return;
  auto& one = static_cast<cell&>(ticket_of(what.op_context));
  if (one.to < 0) {
    if (what.err != FI_ECANCELED) post_receive(one);
    return;
  }
  one.is_free = true;
  const std::string_view why = meaning_of(what.err);
  base::log::info("ofi", "rank %d cannot be reached: %.*s", one.to, static_cast<int>(why.size()),
                  why.data());
  if (!is_watched(one.to)) miss(one.to, CANNOT_CALL);
}

// That it arrived counts, whatever becomes of it.
void connector::hear_early(const hello& said) noexcept {
  try {
    sender_of(said);
  } catch (const std::exception&) {  // nor can it be answered then
  }
}

// Null as well: from another job, or a forged one.
contact* connector::sender_of(const hello& said) {
  contact* const who = find(said.rank);
  if (who == nullptr || who->address.id != said.from) return nullptr;
  who->was_heard = true;
  return who;
}

bool connector::take_up(connection& on, device_queues& q, const hello& said, const contact& who) {
  if (on.name.size == 0) {
    on.peer = q.behind().insert(domain_, said.name);
    on.keys = (domain_.info->domain_attr->mr_mode & FI_MR_ENDPOINT) != 0
                  ? q.behind().insert(domain_, who.address.name)
                  : on.peer;
    on.name = said.name;
  }
  return on.name == said.name;
}

// Null: there is none now.
connector::cell* connector::cell_for(std::uint8_t flags) noexcept {
  constexpr std::uint8_t CALLS = net::connected::hello_flags::WANTS_ANSWER;
  const bool is_call = (flags & (CALLS | hello::KNOWS_YOU)) == CALLS;
  const auto first = cells_.begin() + RECEIVES + (is_call ? NOT_FOR_CALLS : 0);
  const auto at = std::find_if(first, cells_.end(), [](const cell& one) { return one.is_free; });
  return at != cells_.end() ? &*at : nullptr;
}

// The same hello is: one more would say nothing new, and keep a cell from others.
bool connector::is_on_its_way(int rank, const device_queues& q, std::uint8_t flags) const noexcept {
  return std::any_of(cells_.begin() + RECEIVES, cells_.end(), [&](const cell& one) {
    return !one.is_free && one.to == rank && one.device == q.index() && one.flags == flags;
  });
}

// False: not now; the next call says it again.
bool connector::send_hello(int rank, const device_queues& q, std::uint8_t flags) {
  contact* const who = find(rank);
  if (who == nullptr) return false;
  if (is_on_its_way(rank, q, flags)) return true;
  cell* const at = cell_for(flags);
  if (at == nullptr) return false;
  hello out;
  out.to = who->address.id;
  out.from = here_.id;
  out.rank = book_.rank();
  out.device = static_cast<std::uint32_t>(q.index());
  out.flags = flags;
  out.name = q.name();
  std::memcpy(at->at, &out, sizeof(out));
  void* local = nullptr;
  if (!memory_->find_local(at->at, sizeof(out), mem::mem_kind::host, 0, local)) return false;
  at->to = rank;
  at->device = q.index();
  at->flags = flags;
  const long code =
      fi_send(queues_.ep.get(), at->at, sizeof(out), local, who->at, static_cast<ticket*>(at));
  at->is_free = code != 0;
  if (code != 0 && !is_again(code) && !is_watched(rank)) miss(rank, CANNOT_CALL);
  return code == 0;
}

}  // namespace lci::ofi
