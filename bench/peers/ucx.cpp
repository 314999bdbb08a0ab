// The patterns over UCX, active messages and tagged send/receive: bench_patterns_ucx NAME
// Starts its second process itself, and exchanges addresses over a socket pair.
// Threads: one per process.
#include <sys/socket.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>

#include "bench/support/patterns.hpp"

namespace {

void check(ucs_status_t status, const char* what) {
  if (status == UCS_OK) return;
  std::fprintf(stderr, "bench_patterns_ucx: %s: %s\n", what, ucs_status_string(status));
  std::exit(1);
}

std::uint64_t arrived = 0;

// One worker, connected to the worker of the other process.
class connection {
 public:
  explicit connection(int socket) {
    ucp_config_t* config = nullptr;
    check(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_TAG;
    check(ucp_init(&params, config, &context_), "ucp_init");
    ucp_config_release(config);
    ucp_worker_params_t worker{};
    worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker.thread_mode = UCS_THREAD_MODE_SINGLE;
    check(ucp_worker_create(context_, &worker, &worker_), "ucp_worker_create");
    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB;
    handler.id = 0;
    handler.cb = [](void*, const void*, size_t, void*, size_t, const ucp_am_recv_param_t*) {
      ++arrived;
      return UCS_OK;
    };
    check(ucp_worker_set_am_recv_handler(worker_, &handler), "ucp_worker_set_am_recv_handler");
    connect(socket);
  }

  void progress() { ucp_worker_progress(worker_); }
  void finish(ucs_status_ptr_t request) {
    if (request == nullptr) return;
    if (UCS_PTR_IS_ERR(request)) check(UCS_PTR_STATUS(request), "operation");
    while (ucp_request_check_status(request) == UCS_INPROGRESS) progress();
    ucp_request_free(request);
  }
  ucs_status_ptr_t am(void* data, std::size_t size) {
    const ucp_request_param_t none{};
    return ucp_am_send_nbx(endpoint_, 0, nullptr, 0, data, size, &none);
  }
  ucs_status_ptr_t tag_send(void* data, std::size_t size) {
    const ucp_request_param_t none{};
    return ucp_tag_send_nbx(endpoint_, data, size, 1, &none);
  }
  ucs_status_ptr_t tag_recv(void* data, std::size_t size) {
    const ucp_request_param_t none{};
    return ucp_tag_recv_nbx(worker_, data, size, 1, ~ucp_tag_t{0}, &none);
  }

 private:
  void connect(int socket) {
    ucp_address_t* mine = nullptr;
    size_t size = 0;
    check(ucp_worker_get_address(worker_, &mine, &size), "ucp_worker_get_address");
    size_t peer_size = 0;
    bool ok = write(socket, &size, sizeof size) == sizeof size &&
              write(socket, mine, size) == static_cast<ssize_t>(size) &&
              recv(socket, &peer_size, sizeof peer_size, MSG_WAITALL) == sizeof peer_size;
    std::vector<char> peer(peer_size);
    ok = ok && recv(socket, peer.data(), peer_size, MSG_WAITALL) == static_cast<ssize_t>(peer_size);
    if (!ok) check(UCS_ERR_IO_ERROR, "exchange of addresses");
    ucp_worker_release_address(worker_, mine);
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = reinterpret_cast<ucp_address_t*>(peer.data());
    check(ucp_ep_create(worker_, &params, &endpoint_), "ucp_ep_create");
  }

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
};

class am_port {
 public:
  explicit am_port(connection& c) : c_(c) {}
  void send(void* data, std::size_t size) { c_.finish(c_.am(data, size)); }
  void recv(void*, std::size_t) { recv_window(nullptr, 0, 1); }
  void send_window(void* data, std::size_t size, int count) {
    for (int i = 0; i < count; ++i) send(data, size);
  }
  void recv_window(void*, std::size_t, int count) {
    expected_ += static_cast<std::uint64_t>(count);
    while (arrived < expected_) c_.progress();
  }

 private:
  connection& c_;
  std::uint64_t expected_ = 0;
};

class tag_port {
 public:
  explicit tag_port(connection& c) : c_(c) {}
  void send(void* data, std::size_t size) { c_.finish(c_.tag_send(data, size)); }
  void recv(void* data, std::size_t size) { c_.finish(c_.tag_recv(data, size)); }
  void send_window(void* data, std::size_t size, int count) {
    for (int i = 0; i < count; ++i) requests_[i] = c_.tag_send(data, size);
    for (int i = 0; i < count; ++i) c_.finish(requests_[i]);
  }
  void recv_window(void* data, std::size_t size, int count) {
    for (int i = 0; i < count; ++i) requests_[i] = c_.tag_recv(data, size);
    for (int i = 0; i < count; ++i) c_.finish(requests_[i]);
  }

 private:
  connection& c_;
  ucs_status_ptr_t requests_[bench::PATTERN_WINDOW] = {};
};

void run(int rank, int socket, const std::string& name) {
  bench::pin(rank);
  bench::pair both(rank, [&](void* data, std::size_t size) {
    const ssize_t moved =
        rank == 0 ? write(socket, data, size) : recv(socket, data, size, MSG_WAITALL);
    if (moved != static_cast<ssize_t>(size)) check(UCS_ERR_IO_ERROR, "exchange of the page");
  });
  connection c(socket);
  am_port am(c);
  tag_port tag(c);
  if (name == "am_latency") bench::latency_pattern(both, am, "am_latency", "ucx");
  if (name == "am_rate") bench::rate_pattern(both, am, "am_rate", "ucx");
  if (name == "sendrecv_latency") bench::latency_pattern(both, tag, "sendrecv_latency", "ucx");
  if (name == "sendrecv_rate") bench::rate_pattern(both, tag, "sendrecv_rate", "ucx");
  if (name == "bandwidth") bench::bandwidth_pattern(both, tag, "sendrecv", "ucx");
  both.meet();
  // Ends without a disconnect: nothing is outstanding, and closing is not measured.
}

}  // namespace

int main(int argc, char** argv) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) return 1;
  const std::string name = argc > 1 ? argv[1] : "";
  const pid_t child = fork();
  const int rank = child == 0 ? 1 : 0;
  run(rank, sockets[rank], name);
  std::fflush(stdout);
  if (child != 0) waitpid(child, nullptr, 0);
  std::_Exit(0);
}
