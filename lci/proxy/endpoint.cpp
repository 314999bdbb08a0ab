#include "lci/proxy/endpoint.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "lci/base/log.hpp"
#include "lci/base/undo.hpp"
#include "lci/proxy/tier.hpp"

namespace lci::proxy {
namespace {

// Words of the flags, a line apart: kernels that wait read them.
constexpr std::size_t ABORT = 0, ANY_ENDED = 16, FLAG_WORDS = 32;
constexpr std::size_t RECORD_WORDS = 16;  // of a completion queue, a line

const char* name_of(wqe::opcode op) noexcept {
  switch (op) {
    case wqe::opcode::rdma_write:
    case wqe::opcode::rdma_write_imm:
      return "put";
    case wqe::opcode::rdma_read:
      return "get";
    case wqe::opcode::send:
    case wqe::opcode::send_imm:
    case wqe::opcode::send_inval:
      return "message";
    case wqe::opcode::nop:
      return "flush";
    default:
      return wqe::is_atomic(op) ? "atomic operation" : "request";
  }
}

}  // namespace

endpoint::places::places(const endpoint_settings& wanted, std::uint32_t n)
    : rings(shared.add<std::byte>(std::size_t{n} * wanted.depth * wqe::BLOCK_SIZE)),
      cqs(shared.add<std::byte>(std::size_t{n} * wanted.depth * wqe::CQE_SIZE)),
      cq_records(shared.add<std::uint32_t>(n * RECORD_WORDS)),
      mailboxes(shared.add<std::uint64_t>(n)),
      receives(shared.add<gpu::receive_slot>(wanted.receives)),
      peers(own.add<gpu::peer_record>(n)),
      message_peers(
          own.add<gpu::peer_record>(wanted.tier == attr_gpu_tier_t::proxy ? 0 : std::size_t{n})),
      ended(own.add<std::uint32_t>(n)),
      flags(own.add<std::uint32_t>(FLAG_WORDS)),
      states(own.add<wqe::send_queue_state>(n)),
      next_receive(own.add<std::uint64_t>(1)),
      scratch(shared.add<std::uint64_t>(SCRATCHES + 1)),
      scratch_taken(own.add<std::uint64_t>(SCRATCHES)) {
  record.add<gpu::endpoint_record>(1);
}

endpoint::endpoint(device_impl_t& device, const endpoint_settings& wanted, keys& all,
                   std::uint64_t generation)
    : device_(device),
      keys_(all),
      settings_(wanted),
      ranks_(static_cast<std::uint32_t>(device.owner().core.n)),
      generation_(wanted.gpu == gpu::NO_GPU ? generation : generation | gpu::OF_GPU),
      places_(wanted, ranks_),
      kept_(block::of_gpu(places_.record.size(), wanted.gpu)),
      shared_(block::shared(places_.shared.size(), wanted.gpu)),
      own_(block::of_gpu(places_.own.size(), wanted.gpu)),
      words_(device.queues.gpu, wanted.gpu, ranks_ + std::size_t{2}) {
  mailboxes_ = reinterpret_cast<std::uint64_t*>(shared_.at(places_.mailboxes));
  ended_ = reinterpret_cast<std::uint32_t*>(own_.at(places_.ended));
  flags_ = reinterpret_cast<std::uint32_t*>(own_.at(places_.flags));
  auto* const slots = ::new (shared_.at(places_.receives)) gpu::receive_slot[wanted.receives]();
  receives_ = std::make_unique<open_receives>(slots, wanted.receives);
  // What kernels read is made here, and copied to where they read it.
  std::vector<std::byte> image(places_.own.size());
  if (wanted.tier != attr_gpu_tier_t::proxy) make_card_queues(image);
  make_queues(image, card_ == nullptr ? places_.peers : places_.message_peers);
  own_.fill(device.owner().shared.gpu.gpus, image);
  image.assign(sizeof(gpu::endpoint_record), std::byte{0});
  base::undo named([this]() noexcept { unname_scratch(); });
  const gpu::endpoint_record made = describe(slots);
  std::memcpy(image.data(), &made, sizeof(made));
  kept_.fill(device.owner().shared.gpu.gpus, image);
  named.keep();
  record_ = reinterpret_cast<gpu::endpoint_record*>(kept_.at());
}

gpu::endpoint_record endpoint::describe(gpu::receive_slot* slots) {
  gpu::endpoint_record r;
  r.me = static_cast<std::uint32_t>(device_.owner().core.me);
  r.ranks = ranks_;
  r.gpu = settings_.gpu;
  r.max_inline = card_ == nullptr ? settings_.max_inline
                                  : std::min(settings_.max_inline, card_lanes_[0]->max_inline());
  r.over_card = card_ != nullptr ? 1 : 0;
  r.peers = reinterpret_cast<gpu::peer_record*>(own_.at(places_.peers));
  if (card_ != nullptr)
    r.message_peers = reinterpret_cast<gpu::peer_record*>(own_.at(places_.message_peers));
  r.waits = {flags_ + ABORT, settings_.wait_limit_ms * 1000000};
  r.any_ended = flags_ + ANY_ENDED;
  r.receives = slots;
  r.receive_count = settings_.receives;
  r.next_receive = reinterpret_cast<std::uint64_t*>(own_.at(places_.next_receive));
  name_scratch(shared_.at(places_.scratch), (SCRATCHES + 1) * sizeof(std::uint64_t), r.scratch);
  r.scratch_count = SCRATCHES;
  r.scratch_taken = reinterpret_cast<std::uint64_t*>(own_.at(places_.scratch_taken));
  r.generation = generation_;
  return r;
}

endpoint::~endpoint() {
  end_card();
  unname_scratch();
}

// While the device is whole: the card writes nothing any more once its queues were freed.
void endpoint::end_card() noexcept { card_lanes_.clear(); }

void endpoint::unname_scratch() noexcept { keys_.remove(std::exchange(scratch_key_, 0)); }

// For the proxy, also over a card: atomic operations alone name it.
void endpoint::name_scratch(void* at, std::size_t size, gpu::key_t& key) {
  key.base = key.mapped = reinterpret_cast<std::uintptr_t>(at);
  key.length = size;
  key.rank = device_.owner().core.me;
  key.key = scratch_key_ = keys_.of_plain(at, size);
}

void endpoint::make_card_queues(std::vector<std::byte>& image) {
  card_ = device_.context.fabric->card_for_kernels();
  const bool is_for_gpu = settings_.gpu != gpu::NO_GPU;
  net::kernel_queue_options wanted;
  wanted.tier = settings_.tier;
  wanted.blocks = settings_.depth;
  wanted.max_inline = MAX_INLINE;
  wanted.waits = {flags_ + ABORT, settings_.wait_limit_ms * 1000000};
  const auto refuse = [&](const backend_error& error) {
    throw tier_error("tier " + std::string(net::name_of(settings_.tier)) +
                     " of GPU endpoints cannot be used: " + error.what());
  };
  try {
    if (is_for_gpu) maps_ = gpu_domain().open_for_kernels();
    wanted.maps = maps_.get();
    for (std::uint32_t rank = 0; rank < ranks_; ++rank)
      card_lanes_.push_back(std::make_unique<card_lane>(device_, static_cast<int>(rank), wanted));
  } catch (const backend_error& error) {
    refuse(error);
  }
  // Progress may also throw what concerns others.
  try {
    for (const std::unique_ptr<card_lane>& one : card_lanes_) one->connect();
  } catch (const tier_error& error) {
    refuse(error);
  }
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    gpu::peer_record* const peer = peer_in(image, places_.peers, rank);
    peer->queue = card_lanes_[rank]->for_posters(is_for_gpu);
    peer->ended = ended_ + rank;
  }
}

// The processor's part of the tier, and what the card has said.
std::size_t endpoint::serve_cards_st() noexcept {
  std::size_t moved = 0;
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    moved += card_lanes_[rank]->progress_st();
    if (wqe::completion error; card_lanes_[rank]->take_error(&error)) [[unlikely]]
      report(rank, {static_cast<wqe::opcode>(error.send_opcode), error.error, "the card says so"});
  }
  return moved;
}

wqe::send_queue endpoint::queue_to(std::uint32_t rank) const noexcept {
  wqe::send_queue q;
  q.ring = {shared_.at(places_.rings + std::size_t{rank} * settings_.depth * wqe::BLOCK_SIZE),
            settings_.depth};
  q.cq.base = shared_.at(places_.cqs + std::size_t{rank} * settings_.depth * wqe::CQE_SIZE);
  q.cq.count = settings_.depth;
  q.cq.record =
      reinterpret_cast<std::uint32_t*>(shared_.at(places_.cq_records)) + rank * RECORD_WORDS;
  q.bell.form = wqe::doorbell_form::mailbox;
  q.bell.target = mailboxes_ + rank;
  q.limits.max_inline = MAX_INLINE;  // the head of a message is inline too
  q.waits = {flags_ + ABORT, settings_.wait_limit_ms * 1000000};
  q.state = reinterpret_cast<wqe::send_queue_state*>(own_.at(places_.states)) + rank;
  q.qpn = rank & wqe::MAX_QPN;
  return q;
}

gpu::peer_record* endpoint::peer_in(std::vector<std::byte>& image, std::size_t peers,
                                    std::uint32_t rank) {
  return ::new (image.data() + peers + rank * sizeof(gpu::peer_record)) gpu::peer_record;
}

void endpoint::make_queues(std::vector<std::byte>& image, std::size_t peers) {
  served_.assign(ranks_, 0);
  lanes_.reserve(ranks_);
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    const wqe::send_queue q = queue_to(rank);
    wqe::send_queue here = q;
    wqe::send_queue_state state;
    here.state = &state;
    if (const wqe::status s = wqe::prepare(here); s != wqe::status::ok)
      throw backend_error(std::string("a queue of a GPU endpoint: ") + wqe::text_of(s));
    ::new (image.data() + places_.states + rank * sizeof(state)) wqe::send_queue_state(state);
    gpu::peer_record* const peer = peer_in(image, peers, rank);
    peer->queue = q;
    peer->ended = ended_ + rank;
    device::card_queue_options options;
    options.ring = q.ring;
    options.cq = q.cq;
    options.bell = q.bell;
    options.qpn = q.qpn;
    options.joins_signals = static_cast<int>(rank) == device_.owner().core.me;
    lanes_.push_back(std::make_unique<lane>(options, device_, static_cast<int>(rank), keys_,
                                            *receives_, aborted_));
  }
}

std::size_t endpoint::serve_st() noexcept {
  const net::peer_table& peers = device_.owner().core.peers;
  if (peers.epoch() != epoch_) [[unlikely]]
    look_for_ended();
  std::size_t ended = serve_lanes_st();
  if (card_ != nullptr) ended += serve_cards_st();
  // Relaxed: says only whether a look is worth it.
  if (queue_count_.load(std::memory_order_relaxed) != 0) {
    const std::lock_guard lock(queues_lock_);
    for (gpu_queue* const one : queues_) ended += one->move_waiting();
  }
  return ended;
}

std::size_t endpoint::serve_lanes_st() noexcept {
  std::size_t ended = 0;
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    // Relaxed: the card reads it again. It differs as long as a request has not ended.
    if (wqe::word_at<std::uint64_t>(mailboxes_ + rank).load(std::memory_order_relaxed) ==
        served_[rank])
      continue;
    lane& to = *lanes_[rank];
    ended += to.queue.progress_st();
    served_[rank] = to.queue.next();
    if (to.queue.has_failed() && !to.was_reported) [[unlikely]] {
      to.was_reported = true;
      report(rank, {to.queue.failed_op(), to.queue.error(), to.world.reason()});
    }
  }
  return ended;
}

bool endpoint::is_idle_st() noexcept {
  for (const std::unique_ptr<card_lane>& one : card_lanes_)
    if (!one->is_idle_st()) return false;
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    // edge wqe.requests: all that a thread had posted when it ended.
    if (wqe::word_at<std::uint64_t>(mailboxes_ + rank).load(std::memory_order_acquire) !=
        served_[rank])
      return false;
  }
  return true;
}

bool endpoint::is_in_use() const noexcept {
  return words_.is_out() || receives_->any() ||
         std::any_of(lanes_.begin(), lanes_.end(),
                     [](const std::unique_ptr<lane>& one) { return one->world.is_in_use(); });
}

void endpoint::report(std::uint32_t rank, const failure& what) noexcept {
  // The program has ended it itself.
  if (aborted_.load(std::memory_order_relaxed)) return;
  device_.queues.engine().errors.keep_made([&] {
    const auto why = static_cast<unsigned>(what.why);
    char number[8];
    std::snprintf(number, sizeof number, "0x%02x", why & 0xff);
    std::string text = std::string("gpu endpoint: a ") + name_of(what.op) + " to rank " +
                       std::to_string(rank) + " failed with syndrome " + number + " (" +
                       wqe::text_of(what.why) + "), and with it the queue";
    if (!what.reason.empty()) text.append(": ").append(what.reason);
    return gpu_request_error(static_cast<int>(rank), why, text);
  });
}

void endpoint::look_for_ended() noexcept {
  const net::peer_table& peers = device_.owner().core.peers;
  const proto::peer_watch& watch = device_.queues.engine().watch;
  const std::uint32_t epoch = peers.epoch();
  bool is_any = false, is_all = true;
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    const int number = static_cast<int>(rank);
    if (!watch.has_ended(number)) continue;
    // What one that left has sent may come over another device than the one that noticed.
    if (!peers.has_failed(number) && !watch.is_all_in(number)) {
      is_all = false;
      continue;
    }
    words_.raise(rank, ended_ + rank);
    is_any = true;
  }
  if (is_any) words_.raise(ranks_, flags_ + ANY_ENDED);
  if (is_all) epoch_ = epoch;  // else there is another look
}

void endpoint::abort() noexcept {
  aborted_.store(true, std::memory_order_relaxed);  // requests end sooner or later
  stop_kernels();
  if (settings_.gpu != gpu::NO_GPU) return;
  for (const std::unique_ptr<card_lane>& one : card_lanes_) one->end();
}

// The flag stops the waits; what was posted is still executed.
void endpoint::stop_kernels() noexcept {
  words_.raise_now(ranks_ + std::size_t{1}, flags_ + ABORT);
  if (settings_.gpu != gpu::NO_GPU) return;
  for (std::uint32_t rank = 0; rank < ranks_; ++rank)
    wqe::end(queue_to(rank), wqe::status::aborted);
}

void endpoint::take_receives_back() noexcept {
  // Where messages.cpp posts them; freeing that engine has ended them.
  const matching_engine_t engine = device_.owner().default_matching_engine;
  if (!engine.is_empty()) receives_->close(engine.p_impl->match);
}

block endpoint::retire() noexcept {
  end_card();
  if (settings_.gpu == gpu::NO_GPU) {
    // edge gpu.generation, other side in calls with a copy of the handle.
    wqe::word_at<std::uint64_t>(&record_->generation).store(0, std::memory_order_release);
    return std::move(kept_);
  }
  try {
    kept_.fill(device_.owner().shared.gpu.gpus, std::vector<std::byte>(sizeof(std::uint64_t)),
               offsetof(gpu::endpoint_record, generation));
  } catch (const std::exception& error) {
    base::log::warn("gpu", "kernels will not see that an endpoint was freed: %s", error.what());
  }
  return std::move(kept_);
}

void endpoint::add(gpu_queue& queue) {
  const std::lock_guard lock(queues_lock_);
  queues_.push_back(&queue);
  queue_count_.fetch_add(1, std::memory_order_relaxed);
}

void endpoint::remove(gpu_queue& queue) noexcept {
  const std::lock_guard lock(queues_lock_);
  if (std::erase(queues_, &queue) != 0) queue_count_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace lci::proxy
