// Every type, constant, enumerator and attribute reader of the interface, as C++11; what clients
// rely on about their layout is asserted. Compiling this file is the test.
#include "lci.hpp"

namespace {

template <class Handle, class Impl, class Attr>
struct handle_contract {
  static_assert(sizeof(Handle) == sizeof(void*), "one pointer");
  static_assert(alignof(Handle) == alignof(void*), "one pointer");
  static_assert(std::is_trivially_copyable<Handle>::value, "copied like a pointer");
  static_assert(std::is_standard_layout<Handle>::value,
                "an array of pointers can be read as handles");
  static_assert(std::is_convertible<void*, Handle>::value, "implicit from void*");
  static_assert(std::is_convertible<std::nullptr_t, Handle>::value, "implicit from nullptr");
  static_assert(std::is_convertible<Impl*, Handle>::value, "implicit from the implementation");
  static_assert(std::is_default_constructible<Handle>::value, "default is empty");
  static_assert(std::is_same<typename Handle::attr_t, Attr>::value, "attribute struct");
  static_assert(std::is_same<decltype(std::declval<const Handle&>().get_attr()), Attr>::value, "");
  static_assert(std::is_same<decltype(std::declval<const Handle&>().get_impl()), Impl*>::value, "");
  static_assert(std::is_same<decltype(Handle::p_impl), Impl*>::value, "public pointer");
  static_assert(std::is_same<decltype(std::declval<Handle>() == nullptr), bool>::value, "");
  static_assert(std::is_same<decltype(nullptr != std::declval<Handle>()), bool>::value, "");
  static_assert(
      std::is_same<decltype(std::declval<Handle>() == std::declval<Handle>()), bool>::value, "");
  static_assert(std::is_same<decltype(std::declval<const Handle&>().is_empty()), bool>::value, "");
  static_assert(std::is_same<decltype(std::declval<Handle&>().set_impl(nullptr)), void>::value, "");
  static_assert(std::is_same<decltype(std::declval<Handle>().get_attr_name()), const char*>::value,
                "");
  static_assert(
      std::is_same<decltype(std::declval<Handle>().get_attr_user_context()), void*>::value, "");
};
template struct handle_contract<lci::runtime_t, lci::runtime_impl_t, lci::runtime_attr_t>;
template struct handle_contract<lci::net_context_t, lci::net_context_impl_t,
                                lci::net_context_attr_t>;
template struct handle_contract<lci::device_t, lci::device_impl_t, lci::device_attr_t>;
template struct handle_contract<lci::endpoint_t, lci::endpoint_impl_t, lci::endpoint_attr_t>;
template struct handle_contract<lci::packet_pool_t, lci::packet_pool_impl_t,
                                lci::packet_pool_attr_t>;
template struct handle_contract<lci::matching_engine_t, lci::matching_engine_impl_t,
                                lci::matching_engine_attr_t>;
template struct handle_contract<lci::mr_t, lci::mr_impl_t, lci::mr_attr_t>;
template struct handle_contract<lci::comp_t, lci::comp_impl_t, lci::comp_attr_t>;

static_assert(std::is_trivially_copyable<lci::rmr_t>::value && sizeof(lci::rmr_t) == 24,
              "sent as bytes");
static_assert(std::is_trivially_copyable<lci::status_t>::value, "stored in rings");
static_assert(sizeof(void*) != 8 || sizeof(lci::status_t) == 40, "part of the binary interface");
static_assert(std::is_convertible<lci::errorcode_t, lci::error_t>::value, "");
static_assert(std::is_convertible<lci::errorcode_t, lci::status_t>::value, "");
static_assert(!std::is_convertible<void*, lci::status_t>::value, "explicit");
static_assert(std::is_base_of<std::runtime_error, lci::argument_error>::value, "");
static_assert(std::is_base_of<std::runtime_error, lci::backend_error>::value, "");
static_assert(std::is_base_of<std::runtime_error, lci::truncation_error>::value, "");
static_assert(std::is_base_of<std::runtime_error, lci::peer_failure_error>::value, "");
static_assert(noexcept(std::declval<const lci::peer_failure_error&>().failed_rank()), "");
static_assert(std::is_abstract<lci::comp_impl_t>::value, "");
static_assert(std::has_virtual_destructor<lci::comp_impl_t>::value, "");
static_assert(std::has_virtual_destructor<lci::allocator_base_t>::value, "");
static_assert(std::is_same<lci::tag_t, uint64_t>::value &&
                  std::is_same<lci::rcomp_t, uint32_t>::value,
              "");
static_assert(std::is_same<lci::net_imm_data_t, uint32_t>::value, "");
static_assert(std::is_same<lci::matching_entry_key_t, uint64_t>::value, "");
static_assert(std::is_same<lci::matching_entry_val_t, void*>::value, "");
static_assert(std::is_same<lci::graph_node_t, void*>::value, "");

static_assert(LCI_VERSION_HEX ==
                  (LCI_VERSION_MAJOR << 16 | LCI_VERSION_MINOR << 8 | LCI_VERSION_PATCH),
              "");
static_assert(LCI_VERSION_MAJOR >= 2, "clients ask for 2.0.0");
static_assert(sizeof(LCI_VERSION_STRING LCI_VERSION_FULL LCI_VERSION_SUFFIX LCI_BUILD_TIMESTAMP) >
                  1,
              "strings");
static_assert(sizeof(LCI_NETWORK_BACKENDS_ENABLED LCI_OFI_PROVIDER_HINT_DEFAULT) > 0, "strings");
static_assert(LCI_WITH_SHM + LCI_USE_REG_CACHE <= 2 && LCI_CACHE_LINE >= 32, "");
static_assert(LCI_PACKET_SIZE_DEFAULT > 0 && LCI_PACKET_NUM_DEFAULT > 0, "");
static_assert(LCI_BACKEND_MAX_SENDS_DEFAULT > 0 && LCI_BACKEND_MAX_RECVS_DEFAULT > 0, "");
static_assert(LCI_BACKEND_MAX_CQES_DEFAULT > 0 && LCI_BACKEND_MAX_POLLS > 0, "");

template <class T, class U>
void same(const U&) {
  static_assert(std::is_same<T, U>::value, "type of an attribute or constant");
}

}  // namespace

void mention_attributes(lci::runtime_t r, lci::net_context_t n, lci::device_t d, lci::comp_t c) {
  same<size_t>(r.get_attr_packet_return_threshold());
  same<int>(r.get_attr_imm_nbits_tag());
  same<int>(r.get_attr_imm_nbits_rcomp());
  same<lci::attr_rdv_protocol_t>(r.get_attr_rdv_protocol());
  same<int>(r.get_attr_max_handler_depth());
  same<int>(r.get_attr_max_handler_wait_s());
  same<int>(r.get_attr_gpu_resident());
  same<lci::attr_gpu_proxy_t>(r.get_attr_gpu_proxy());
  same<lci::attr_gpu_tier_t>(r.get_attr_gpu_tier());
  same<lci::attr_gpu_gdrcopy_t>(r.get_attr_gpu_gdrcopy());
  same<lci::attr_failure_notice_t>(r.get_attr_failure_notice());
  same<std::vector<int>>(lci::get_failed_ranks_x().runtime(r)());
  same<uint64_t>(r.get_attr_max_imm_tag());
  same<uint64_t>(r.get_attr_max_imm_rcomp());
  same<uint64_t>(r.get_attr_max_tag());
  same<uint64_t>(r.get_attr_max_rcomp());
  same<bool>(r.get_attr_alloc_default_device());
  same<bool>(r.get_attr_alloc_default_packet_pool());
  same<bool>(r.get_attr_alloc_default_matching_engine());
  same<lci::attr_backend_t>(n.get_attr_backend());
  same<std::string>(n.get_attr_ofi_provider_name());
  same<std::string>(n.get_attr_device_name());
  same<size_t>(n.get_attr_max_msg_size());
  same<size_t>(n.get_attr_max_inject_size());
  same<int>(n.get_attr_ibv_gid_idx());
  same<bool>(n.get_attr_ibv_force_gid_auto_select());
  same<lci::attr_ibv_odp_strategy_t>(n.get_attr_ibv_odp_strategy());
  same<lci::attr_ibv_prefetch_strategy_t>(n.get_attr_ibv_prefetch_strategy());
  same<bool>(n.get_attr_support_putimm());
  same<bool>(n.get_attr_use_dmabuf());
  same<bool>(n.get_attr_shm_single_copy());
  same<bool>(n.get_attr_shm_pipelined_copy());
  same<size_t>(n.get_attr_shm_single_copy_min());
  same<size_t>(d.get_attr_net_max_sends());
  same<size_t>(d.get_attr_net_max_recvs());
  same<size_t>(d.get_attr_net_max_cqes());
  same<double>(d.get_attr_net_send_reserved_pct());
  same<uint64_t>(d.get_attr_ofi_lock_mode());
  same<bool>(d.get_attr_alloc_default_endpoint());
  same<bool>(d.get_attr_alloc_progress_endpoint());
  same<bool>(d.get_attr_use_reg_cache());
  same<bool>(d.get_attr_shm_enable());
  same<size_t>(d.get_attr_shm_ring_size());
  same<size_t>(d.get_attr_shm_slot_size());
  same<size_t>(d.get_attr_shm_producer_cas_attempts());
  same<size_t>(d.get_attr_shm_consumer_cas_attempts());
  same<size_t>(d.get_attr_shm_max_polls());
  same<lci::attr_ibv_td_strategy_t>(d.get_attr_ibv_td_strategy());
  same<int>(d.get_attr_uid());
  same<int>(lci::endpoint_t().get_attr_uid());
  same<size_t>(lci::packet_pool_t().get_attr_packet_size());
  same<size_t>(lci::packet_pool_t().get_attr_npackets());
  same<lci::attr_matching_engine_type_t>(lci::matching_engine_t().get_attr_matching_engine_type());
  same<lci::attr_comp_type_t>(c.get_attr_comp_type());
  same<int>(c.get_attr_sync_threshold());
  same<bool>(c.get_attr_zero_copy_am());
  same<lci::attr_cq_type_t>(c.get_attr_cq_type());
  same<int>(c.get_attr_cq_default_length());
}

void mention_defaults(lci::global_attr_t& g) {
  g.packet_return_threshold = 1;
  g.imm_nbits_tag = g.imm_nbits_rcomp = 15;
  g.rdv_protocol = lci::attr_rdv_protocol_t::auto_select;
  g.max_handler_depth = 8;
  g.max_handler_wait_s = 60;
  g.alloc_default_device = g.alloc_default_packet_pool = g.alloc_default_matching_engine = true;
  g.packet_size = g.npackets = 1;
  g.matching_engine_type = lci::attr_matching_engine_type_t::map;
  g.sync_threshold = g.cq_default_length = 1;
  g.zero_copy_am = false;
  g.cq_type = lci::attr_cq_type_t::lcrq;
  g.backend = lci::attr_backend_t::shm;
  g.ofi_provider_name = g.device_name = "";
  g.max_msg_size = g.max_inject_size = 1;
  g.ibv_gid_idx = -1;
  g.ibv_force_gid_auto_select = g.use_dmabuf = true;
  g.ibv_odp_strategy = lci::attr_ibv_odp_strategy_t::explicit_odp;
  g.ibv_prefetch_strategy = lci::attr_ibv_prefetch_strategy_t::prefetch_no_fault;
  g.shm_single_copy = g.shm_pipelined_copy = true;
  g.shm_single_copy_min = 0;
  g.net_max_sends = g.net_max_recvs = g.net_max_cqes = 1;
  g.net_send_reserved_pct = 0.25;
  g.ofi_lock_mode =
      lci::LCI_NET_TRYLOCK_SEND | lci::LCI_NET_TRYLOCK_RECV | lci::LCI_NET_TRYLOCK_POLL;
  g.alloc_default_endpoint = g.alloc_progress_endpoint = g.use_reg_cache = g.shm_enable = true;
  g.shm_ring_size = g.shm_slot_size = g.shm_producer_cas_attempts = g.shm_consumer_cas_attempts = 1;
  g.shm_max_polls = 32;
  g.ibv_td_strategy = lci::attr_ibv_td_strategy_t::per_qp;
  lci::g_default_attr = g;
}

void mention_constants() {
  same<int>(lci::ANY_SOURCE);
  same<lci::tag_t>(lci::ANY_TAG);
  same<lci::mr_t>(lci::MR_HOST);
  same<lci::mr_t>(lci::MR_DEVICE);
  same<lci::mr_t>(lci::MR_UNKNOWN);
  same<lci::rmr_t>(lci::RMR_NULL);
  same<lci::comp_t>(lci::COMP_NULL);
  same<lci::comp_t>(lci::COMP_NULL_RETRY);
  same<lci::comp_t>(lci::COMP_NULL_EXPECT_DONE);
  same<lci::comp_t>(lci::COMP_NULL_EXPECT_DONE_OR_RETRY);
  same<lci::graph_node_t>(lci::GRAPH_START);
  same<lci::graph_node_t>(lci::GRAPH_END);
  same<lci::graph_node_run_cb_t>(lci::GRAPH_NODE_DUMMY_CB);
  same<const char*>(lci::DEFAULT_NAME);
  same<lci::allocator_default_t>(lci::g_allocator_default);
  const lci::attr_net_lock_mode_t modes[] = {lci::LCI_NET_LOCK_MR, lci::LCI_NET_LOCK_ALL,
                                             lci::LCI_NET_TRYLOCK_MAX};
  const lci::attr_backend_t backends[] = {lci::attr_backend_t::none, lci::attr_backend_t::ibv,
                                          lci::attr_backend_t::ofi, lci::attr_backend_t::ucx};
  static_assert(sizeof(modes) > 0 && sizeof(backends) > 0, "");
  static_assert(static_cast<unsigned>(lci::matching_policy_t::max) == 4, "");
  static_assert(static_cast<unsigned>(lci::matching_policy_t::rank_tag) == 3, "");
  static_assert(static_cast<int>(lci::errorcode_t::done) == 1, "");
  const char* names[] = {
      lci::get_errorcode_str(lci::errorcode_t::done),
      lci::get_net_opcode_str(lci::net_opcode_t::SEND),
      lci::get_broadcast_algorithm_str(lci::broadcast_algorithm_t::tree),
      lci::get_allreduce_algorithm_str(lci::allreduce_algorithm_t::tree),
      lci::get_reduce_scatter_algorithm_str(lci::reduce_scatter_algorithm_t::tree)};
  same<const char* [5]>(names);
}

void mention_members(lci::status_t s, lci::net_status_t n, lci::rmr_t r) {
  s.set_done();
  s.set_posted();
  s.set_retry();
  same<bool>(s.is_done() || s.is_posted() || s.is_retry());
  same<lci::error_t>(s.get_error());
  same<const char*>(s.get_error().get_str());
  same<int>(s.get_rank());
  same<void*>(s.get_buffer());
  same<size_t>(s.get_size());
  same<lci::tag_t>(s.get_tag());
  same<void*>(s.get_user_context());
  same<lci::net_opcode_t>(n.opcode);
  same<int>(n.rank);
  same<void*>(n.user_context);
  same<size_t>(n.length);
  same<lci::net_imm_data_t>(n.imm_data);
  same<uintptr_t>(r.base);
  same<uintptr_t>(r.mr_base);
  same<uint64_t>(r.opaque_rkey);
  same<bool>(r.is_empty());
  lci::option_t<int> option(3), none, both(4, false);
  int out = option.get_value_or(0) + none.get_value_or(1) + option;
  same<bool>(both.get_set_value(&out) || option.is_set() || option.m_is_set);
  same<int>(option.get_value() + option.m_value);
}
