// Is there a verbs device that works? For the tests of the virtual machines themselves, which must
// tell a broken machine from a broken library.
//   verbs_probe devices N     exactly N devices, the first port of each active
//   verbs_probe loopback      on each device: a reliable connection to itself brings a message
// Exit status 0, or 1 and a sentence on stderr. Threads: single.
#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

namespace {

constexpr std::uint8_t PORT = 1;
constexpr std::size_t SIZE = 1024;
constexpr int MAX_POLLS = 10'000'000;
// An int, because the macro ibv_reg_mr combines it with a constant of another enumeration.
constexpr int ACCESS = IBV_ACCESS_LOCAL_WRITE;

void check(bool good, const std::string& what) {
  if (!good) throw std::runtime_error(what + ": " + std::strerror(errno));
}

template <auto destroy>
struct destroyer {
  template <class T>
  void operator()(T* object) const noexcept {
    destroy(object);
  }
};
template <class T, auto destroy>
using handle = std::unique_ptr<T, destroyer<destroy>>;

using context_handle = handle<ibv_context, ibv_close_device>;

context_handle open_device(ibv_device* device) {
  context_handle context(ibv_open_device(device));
  check(context != nullptr, "ibv_open_device");
  return context;
}

// The address by which RoCE v2 over IPv4 reaches the device: the first GID that is a mapped IPv4
// address.
int find_gid(ibv_context* context, ibv_gid& gid) {
  constexpr std::array<std::uint8_t, 12> MAPPED = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  for (int index = 0; index < 16; ++index) {
    if (ibv_query_gid(context, PORT, index, &gid) == 0 &&
        std::memcmp(gid.raw, MAPPED.data(), MAPPED.size()) == 0)
      return index;
  }
  throw std::runtime_error("no GID with an IPv4 address");
}

void connect_to_itself(ibv_context* context, ibv_qp* qp) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = PORT;
  attr.qp_access_flags = IBV_ACCESS_LOCAL_WRITE;
  check(ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
        "ibv_modify_qp to INIT");
  attr = {};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = qp->qp_num;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = 12;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = PORT;
  attr.ah_attr.grh.hop_limit = 1;
  attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(find_gid(context, attr.ah_attr.grh.dgid));
  check(ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
        "ibv_modify_qp to RTR");
  attr = {};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 18;
  attr.retry_cnt = 3;
  attr.rnr_retry = 3;
  attr.max_rd_atomic = 1;
  check(ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                          IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
        "ibv_modify_qp to RTS");
}

void post_both(ibv_qp* qp, ibv_sge& from, ibv_sge& to) {
  ibv_recv_wr receive{};
  receive.sg_list = &to;
  receive.num_sge = 1;
  ibv_recv_wr* bad_receive = nullptr;
  check(ibv_post_recv(qp, &receive, &bad_receive) == 0, "ibv_post_recv");
  ibv_send_wr send{};
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_SIGNALED;
  send.sg_list = &from;
  send.num_sge = 1;
  ibv_send_wr* bad_send = nullptr;
  check(ibv_post_send(qp, &send, &bad_send) == 0, "ibv_post_send");
}

void wait_for_two(ibv_cq* cq) {
  int left = 2;
  for (int polls = 0; left > 0; ++polls) {
    ibv_wc done{};
    const int n = ibv_poll_cq(cq, 1, &done);
    check(n >= 0 && polls < MAX_POLLS, "no completion");
    if (n == 0) continue;
    if (done.status != IBV_WC_SUCCESS) throw std::runtime_error(ibv_wc_status_str(done.status));
    --left;
  }
}

void loopback(ibv_device* device) {
  const context_handle context = open_device(device);
  const handle<ibv_pd, ibv_dealloc_pd> pd(ibv_alloc_pd(context.get()));
  check(pd != nullptr, "ibv_alloc_pd");
  const handle<ibv_cq, ibv_destroy_cq> cq(ibv_create_cq(context.get(), 8, nullptr, nullptr, 0));
  check(cq != nullptr, "ibv_create_cq");
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = cq.get();
  wanted.cap = {.max_send_wr = 2,
                .max_recv_wr = 2,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
  wanted.qp_type = IBV_QPT_RC;
  const handle<ibv_qp, ibv_destroy_qp> qp(ibv_create_qp(pd.get(), &wanted));
  check(qp != nullptr, "ibv_create_qp");
  std::array<char, 2 * SIZE> memory{};
  std::memset(memory.data(), 'x', SIZE);
  const handle<ibv_mr, ibv_dereg_mr> mr(ibv_reg_mr(pd.get(), memory.data(), memory.size(), ACCESS));
  check(mr != nullptr, "ibv_reg_mr");

  connect_to_itself(context.get(), qp.get());
  const auto address = reinterpret_cast<std::uint64_t>(memory.data());
  ibv_sge from{.addr = address, .length = SIZE, .lkey = mr->lkey};
  ibv_sge to{.addr = address + SIZE, .length = SIZE, .lkey = mr->lkey};
  post_both(qp.get(), from, to);
  wait_for_two(cq.get());
  if (std::memcmp(memory.data(), memory.data() + SIZE, SIZE) != 0)
    throw std::runtime_error("other bytes arrived");
}

void must_be_active(ibv_device* device) {
  const context_handle context = open_device(device);
  ibv_port_attr port{};
  check(ibv_query_port(context.get(), PORT, &port) == 0, "ibv_query_port");
  if (port.state != IBV_PORT_ACTIVE) throw std::runtime_error(ibv_port_state_str(port.state));
}

int run(const std::string& mode, int wanted) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  const std::unique_ptr<ibv_device*, destroyer<ibv_free_device_list>> owner(list);
  check(list != nullptr, "ibv_get_device_list");
  if (mode == "devices" && count != wanted)
    throw std::runtime_error(std::to_string(count) + " devices instead of " +
                             std::to_string(wanted));
  for (int i = 0; i < count; ++i) {
    try {
      mode == "devices" ? must_be_active(list[i]) : loopback(list[i]);
    } catch (const std::exception& error) {
      throw std::runtime_error(std::string(ibv_get_device_name(list[i])) + ": " + error.what());
    }
  }
  std::printf("%s: %d devices\n", mode.c_str(), count);
  return count > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "devices", argc > 2 ? std::atoi(argv[2]) : 1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "verbs_probe: %s\n", error.what());
    return 1;
  }
}
