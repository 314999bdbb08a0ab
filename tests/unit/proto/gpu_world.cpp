#include "tests/unit/proto/gpu_world.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "lci/errors.hpp"

namespace lci::test {

namespace {

constexpr std::byte GUARD_BYTE{0xa5};

// The bytes of a seed, `size` of them. Made once: a call for each byte takes long where tests are
// not optimised.
const std::byte* pattern_of(unsigned seed, std::size_t size) {
  static std::array<std::vector<std::byte>, 256> made;
  const std::size_t first = (seed * 37) & 0xff;
  auto& bytes = made[first];
  for (std::size_t i = bytes.size(); i < size; ++i)
    bytes.push_back(static_cast<std::byte>((i * 131 + i / 251 + first) & 0xff));
  return bytes.data();
}

// Leaves nothing of the arena but what has its purpose already.
void hog(node& of) {
  std::vector<mem::packet*> packets;
  while (mem::packet* const packet = of.pool.get()) packets.push_back(packet);
  for (mem::packet* const packet : packets) of.pool.put(packet);
  mem::arena& arena = of.core.arena;
  for (std::size_t size = arena.reserved(); size >= 64;) {
    try {
      arena.allocate(size);
    } catch (const std::exception&) {
      size /= 2;
    }
  }
}

}  // namespace

test_buffer::test_buffer(mem::mem_kind kind, std::size_t size) : kind_(kind), size_(size) {
  if (kind == mem::mem_kind::device)
    gpu_ = std::make_unique<fake_memory>(size + 2 * GUARD);
  else
    host_.resize(size + 2 * GUARD);
  clear();
}

std::byte* test_buffer::bytes() const noexcept {
  return (gpu_ ? gpu_->bytes() : const_cast<std::byte*>(host_.data())) + GUARD;
}

std::byte* test_buffer::at() const noexcept { return gpu_ ? gpu_->at() + GUARD : bytes(); }

void test_buffer::clear() noexcept {
  std::memset(bytes() - GUARD, static_cast<int>(GUARD_BYTE), size_ + 2 * GUARD);
}

void test_buffer::fill(unsigned seed) { std::memcpy(bytes(), pattern_of(seed, size_), size_); }

testing::AssertionResult test_buffer::is_guarded() const {
  const std::byte* const first = bytes();
  for (std::size_t i = 0; i < GUARD; ++i)
    if (first[-1 - static_cast<std::ptrdiff_t>(i)] != GUARD_BYTE || first[size_ + i] != GUARD_BYTE)
      return testing::AssertionFailure() << "a guard byte at " << i << " was written";
  return testing::AssertionSuccess();
}

testing::AssertionResult test_buffer::holds(unsigned seed) const {
  const std::byte* const first = bytes();
  const std::byte* const expected = pattern_of(seed, size_);
  if (std::memcmp(first, expected, size_) == 0) return is_guarded();
  const auto wrong = std::mismatch(first, first + size_, expected).first - first;
  return testing::AssertionFailure() << "byte " << wrong << " of " << size_ << " is wrong";
}

// Receive buffers of their own: packets that are lent come back late, which hides lost ones.
static sim_options without_lending(sim_options options) {
  if (options.packets == sim_packets::lend) options.packets = sim_packets::own;
  options.gpus = &fake_domain();
  return options;
}

gpu_world::gpu_world(const gpu_options& options)
    : proto_world(without_lending(options.sim), options.ranks, std::size_t{1} << 30, options.rules),
      kept(static_cast<std::size_t>(options.ranks)),
      registers_buffers(options.registers_buffers) {
  for (auto& n : nodes) {
    if (options.by_cpu) n->shared.gpu.gpus.set_gdrcopy(attr_gpu_gdrcopy_t::on);
    gpus_.push_back(static_cast<fake_gpu*>(&n->shared.gpu.gpus.use(fake_domain())));
    fake_gpu::settings how = options.gpu;
    how.seed += static_cast<unsigned>(n->core.me);
    gpus_.back()->set(how);
    n->queues->host.gpu_path = options.way;
    if (options.is_starved) {
      hog(*n);
      continue;
    }
    // Flags keep one set for themselves, from now on.
    if (proto::gpu::flag_word* const word = n->shared.gpu.flags.take(); word != nullptr)
      proto::gpu::flag_words::give(word);
    bool never = false;
    n->shared.gpu.staging.give(n->shared.gpu.staging.take(1, never));
    if (options.is_tight) hog(*n);
  }
  dead_.resize(nodes.size());
  heard.resize(nodes.size());
  for (int r = 0; r < options.ranks; ++r)
    sets_.push_back(options.is_tight ? sets_home(r) : set_counts{});
}

void gpu_world::step(int rounds) {
  for (int i = 0; i < rounds; ++i)
    for (std::size_t r = 0; r < nodes.size(); ++r) step_one(static_cast<int>(r));
}

void gpu_world::step_one(int rank) {
  try {
    (*this)[rank].queues->progress();
  } catch (...) {
    thrown.push_back(std::current_exception());
    ++heard[static_cast<std::size_t>(rank)];
  }
}

void gpu_world::set_all(const fake_gpu::settings& how) {
  for (fake_gpu* one : gpus_) one->set(how);
}

void gpu_world::kill(int rank) {
  dead_[static_cast<std::size_t>(rank)] = true;
  sim.kill(rank);
  gpu(rank).die();
}

set_counts gpu_world::sets_home(int rank) {
  proto::gpu::staging_store& store = (*this)[rank].shared.gpu.staging;
  set_counts found{};
  std::vector<proto::gpu::slot_set*> taken;
  for (std::size_t of = proto::gpu::staging_store::CLASSES; of-- > 0;) {
    bool never = false;
    for (;;) {
      proto::gpu::slot_set* const set =
          store.take(proto::gpu::staging_store::CLASS[of].bytes, never);
      if (set == nullptr) break;
      taken.push_back(set);
      ++found[set->of];
    }
  }
  for (proto::gpu::slot_set* set : taken) store.give(set);
  return found;
}

void gpu_world::expect_clean(int rank) {
  node& at = (*this)[rank];
  EXPECT_TRUE(at.queues->is_quiet()) << "rank " << rank;
  EXPECT_TRUE(at.queues->gpu.staged().is_quiet()) << "staged states of rank " << rank;
  EXPECT_EQ(at.queues->host.rendezvous.sends.size(), 0u) << "rank " << rank;
  EXPECT_EQ(at.queues->host.rendezvous.recvs.size(), 0u) << "rank " << rank;
  EXPECT_EQ(at.queues->engine().open.sum(), 0) << "rank " << rank;
  EXPECT_FALSE(at.core.is_busy()) << "rank " << rank;
  EXPECT_EQ(gpu(rank).under_way(), 0u) << "copies of rank " << rank;
  EXPECT_EQ(gpu(rank).mapped(), 0u) << "mappings of rank " << rank;
  EXPECT_EQ(at.pool.outstanding(), 0u) << "packets of rank " << rank;
  EXPECT_EQ(sim.registrations(rank), kept[static_cast<std::size_t>(rank)])
      << "registrations of rank " << rank;
  set_counts& known = sets_[static_cast<std::size_t>(rank)];
  const set_counts now = sets_home(rank);
  if (known == set_counts{}) {
    known = {proto::gpu::staging_store::CLASS[0].most, proto::gpu::staging_store::CLASS[1].most,
             proto::gpu::staging_store::CLASS[2].most};
    if (proto::gpu::flag_word* const word = at.shared.gpu.flags.take(); word != nullptr) {
      --known[0];
      proto::gpu::flag_words::give(word);
    }
  }
  EXPECT_EQ(now, known) << "staging sets of rank " << rank;
}

std::size_t gpu_world::failures_of(int rank) const {
  std::size_t count = 0;
  for (const auto& problem : thrown) {
    try {
      std::rethrow_exception(problem);
    } catch (const peer_failure_error& e) {
      if (e.failed_rank() == rank) ++count;
    } catch (const std::exception&) {
    }
  }
  return count;
}

std::string gpu_world::errors() const {
  std::string all;
  for (const auto& problem : thrown) {
    try {
      std::rethrow_exception(problem);
    } catch (const std::exception& e) {
      all += std::string(e.what()) + "\n";
    }
  }
  return all;
}

const char* name_of(verb what) noexcept {
  constexpr const char* NAMES[] = {"send", "active_message", "put", "put_signal", "get"};
  return NAMES[static_cast<std::size_t>(what)];
}

void watcher::watch(gpu_world& world, const test_buffer& buffer) {
  world_ = &world;
  buffer_ = &buffer;
}

void watcher::signal(status_t status) {
  seen.push_back(status);
  if (buffer_ == nullptr) return;
  for (std::size_t r = 0; r < world_->nodes.size(); ++r)
    EXPECT_FALSE(world_->gpu(static_cast<int>(r)).uses(buffer_->at(), buffer_->size()))
        << "a buffer was given back while the GPU of rank " << r << " uses it";
}

static unsigned next_seed = 1;

exchange::exchange(gpu_world& world, verb what, mem::mem_kind near, mem::mem_kind far,
                   std::size_t size, int from, int to)
    : here(near, size),
      there(what == verb::active_message ? mem::mem_kind::host : far, size),
      seed(next_seed++),
      world_(world),
      what_(what),
      from_(from),
      to_(to),
      tag_(seed) {
  (what == verb::get ? there : here).fill(seed);
  near_.watch(world, here);
  if (what != verb::active_message) far_.watch(world, there);
  if (tells_far() && what != verb::send) rcomp_ = world[to].core.rcomps.add(&far_);
  if (world.registers_buffers) near_key_ = registered(from, here);
  if (!names_far() && !(world.registers_buffers && what == verb::send)) return;
  far_key_ = registered(to, there);
  mem::region region{there.at(), size, there.kind(), {}, far_key_.is_off()};
  std::string why_not;
  if (there.kind() == mem::mem_kind::device && size != 0)
    region.share = world.gpu(to).share(region.address, size, why_not);
  region_ = world[to].core.regions.insert(region);
  world[to].fabric->publish({region_.slot, region_.generation}, far_key_.get());
}

proto::network_key exchange::registered(int rank, const test_buffer& buffer) {
  node& at = world_[rank];
  proto::network_key key =
      proto::key_for(at.queues->host, 1, buffer.at(), buffer.size(), buffer.kind());
  if (key.get() != 0) ++world_.kept[static_cast<std::size_t>(rank)];
  return key;
}

exchange::~exchange() {
  if (near_key_.get() != 0) --world_.kept[static_cast<std::size_t>(from_)];
  if (far_key_.get() != 0) --world_.kept[static_cast<std::size_t>(to_)];
  if (region_.generation != 0) world_[to_].core.regions.erase(region_);
  if (rcomp_ != 0) world_[to_].core.rcomps.remove(rcomp_);
  if (what_ == verb::active_message)
    for (const status_t& got : far_.seen) free(got.buffer);
}

void exchange::receive() {
  if (what_ != verb::send || std::exchange(is_received_, true)) return;
  proto::receive& record = *world_[to_].shared.host.receives.get();
  record.user = {};
  record.user.comp = &far_;
  record.user.status.buffer = there.at();
  record.user.status.size = there.size();
  record.host = &world_[to_].queues->host;
  record.region = region_;
  record.region_offset = 0;
  record.kind = there.kind();
  record.gpu = there.kind() == mem::mem_kind::device ? 0 : -1;
  status_t got;
  world_[to_].matcher->post(record, from_, tag_, matching_policy_t::rank_tag, got);
}

void exchange::preposted() {
  world_[to_].queues->gpu.preposted().encourage(from_);
  receive();
  for (int i = 0; i < 20; ++i) world_.step_one(from_);
}

errorcode_t exchange::start(bool may_retry) {
  node& at = world_[from_];
  receive();
  do {
    const rcomp_t rcomp = what_ == verb::send ? world_[to_].engine_rcomp() : rcomp_;
    auto out = at.outgoing(to_, here.at(), here.size(), rcomp, tag_, &near_);
    out.kind = here.size() == 0 ? mem::mem_kind::host : here.kind();
    out.gpu = out.kind == mem::mem_kind::device ? 0 : -1;
    out.may_retry = may_retry;
    out.local_key = near_key_.get();
    out.off_network = near_key_.is_off();
    if (world_.registers_buffers) out.has_mr = true;
    if (names_far()) {
      out.remote = {region_.slot, region_.generation};
      out.there = at.fabric->check_remote(to_, out.remote);
      if (out.there.what == net::remote_view::answer::not_connected) {
        answer_ = errorcode_t::retry;
        world_.step(1);
        continue;
      }
    }
    if (what_ == verb::get)
      answer_ = proto::start_get(out);
    else if (what_ == verb::put || what_ == verb::put_signal)
      answer_ = proto::start_put(out);
    else
      answer_ = proto::start_message(out);
    if (error_t(answer_).is_retry()) world_.step(1);
  } while (error_t(answer_).is_retry() && !world_.is_dead(from_) && !world_.is_dead(to_));
  // A copy was made: the buffer is ours again.
  if (error_t(answer_).is_done() && what_ != verb::get) here.fill(~seed);
  return answer_;
}

bool exchange::is_over() const {
  const bool near = !error_t(answer_).is_posted() || !near_.seen.empty();
  // Nobody is told that a put has arrived.
  if (what_ == verb::put && error_t(answer_).is_done()) return there.holds(seed);
  return near && (!tells_far() || !far_.seen.empty());
}

std::string exchange::text() const {
  const auto kind = [](const test_buffer& b) {
    return b.kind() == mem::mem_kind::device ? "gpu" : "host";
  };
  return std::string(name_of(what_)) + " of " + std::to_string(here.size()) + " bytes, " +
         kind(here) + " " + std::to_string(from_) + ", " + kind(there) + " " + std::to_string(to_);
}

void exchange::expect_good() const {
  EXPECT_EQ(near_.seen.size(), error_t(answer_).is_posted() ? 1u : 0u) << text();
  EXPECT_EQ(far_.seen.size(), tells_far() ? 1u : 0u) << text();
  EXPECT_TRUE(here.is_guarded()) << text();
  if (what_ == verb::active_message) {
    if (far_.seen.size() != 1) return;
    EXPECT_EQ(far_.seen[0].size, here.size()) << text();
    test_buffer copy(mem::mem_kind::host, here.size());
    if (here.size() != 0) std::memcpy(copy.bytes(), far_.seen[0].buffer, here.size());
    EXPECT_TRUE(copy.holds(seed)) << text();
    return;
  }
  if (what_ == verb::get)
    EXPECT_TRUE(here.holds(seed)) << text();
  else
    EXPECT_TRUE(there.holds(seed)) << text();
  EXPECT_TRUE(there.is_guarded()) << text();
}

void run_one(gpu_world& w, verb what, mem::mem_kind near, mem::mem_kind far, std::size_t size,
             int to) {
  exchange one(w, what, near, far, size, 0, to);
  one.start();
  EXPECT_TRUE(w.step_until([&] { return one.is_over(); })) << one.text();
  w.step_until([&] {
    return w[0].queues->is_drained() && w[to].queues->is_drained() && !w[0].core.is_busy() &&
           !w[to].core.is_busy();
  });
  one.expect_good();
}

void expect_each_arrives(gpu_world& w, std::initializer_list<std::size_t> sizes, int to) {
  for (const std::size_t size : sizes)
    for_each_transfer([&](verb what, mem::mem_kind near, mem::mem_kind far) {
      run_one(w, what, near, far, size, to);
    });
  EXPECT_TRUE(w.thrown.empty()) << w.errors();
  w.expect_clean(0);
  if (to != 0) w.expect_clean(to);
}

void expect_many_complete(gpu_world& w, int rounds) {
  exchanges all;
  for (int round = 0; round < rounds; ++round)
    for_each_transfer([&](verb what, mem::mem_kind near, mem::mem_kind far) {
      const std::size_t size = std::size_t{5000} + 9001 * (all.size() % 4);
      all.push_back(std::make_unique<exchange>(w, what, near, far, size, round % 2, 1 - round % 2));
      all.back()->start(false);
    });
  EXPECT_TRUE(w.step_until([&] { return are_over(all); }));
  w.step(100);
  for (const auto& one : all) one->expect_good();
  EXPECT_TRUE(w.thrown.empty()) << w.errors();
  w.expect_clean(0);
  w.expect_clean(1);
}

}  // namespace lci::test
