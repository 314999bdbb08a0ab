// UCX as lci_perf measures it: active messages, tagged send/receive, put and get; a worker for each
// seat. Called by: lci_perf, which starts each process. Threads: one for each seat.
#include <ucp/api/ucp.h>

#include <atomic>

#include "tools/perf/worker.hpp"

namespace {

using namespace lci_perf;

void check(ucs_status_t status, const char* what) {
  if (status != UCS_OK)
    throw std::runtime_error(std::string(what) + ": " + ucs_status_string(status));
}

// The context of a process.
class library {
 public:
  explicit library(const board& page) {
    ucp_config_t* config = nullptr;
    check(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_TAG | UCP_FEATURE_RMA;
    params.mt_workers_shared = page.is_threads != 0;
    check(ucp_init(&params, config, &context), "ucp_init");
    ucp_config_release(config);
  }
  ucp_context_h context = nullptr;
};

// One worker and what is registered for it. Ends with the process: closing is not measured.
class seat_end {
 public:
  seat_end(library& all, board& page, int number)
      : page_(page),
        number_(static_cast<std::size_t>(number)),
        out(buffer_of(page)),
        in(buffer_of(page)),
        last(buffer_of(page)) {
    ucp_worker_params_t params{};
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    params.thread_mode = UCS_THREAD_MODE_SINGLE;
    check(ucp_worker_create(all.context, &params, &worker_), "ucp_worker_create");
    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                         UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = 0;
    handler.arg = this;
    handler.cb = [](void* self, const void*, size_t, void* data, size_t size,
                    const ucp_am_recv_param_t* how) {
      return static_cast<seat_end*>(self)->on_message(data, size, how);
    };
    check(ucp_worker_set_am_recv_handler(worker_, &handler), "ucp_worker_set_am_recv_handler");
    ucp_mem_map_params_t memory{};
    memory.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    memory.address = in.data();
    memory.length = in.size();
    check(ucp_mem_map(all.context, &memory, &memory_), "ucp_mem_map");
    publish(all.context);
    connect();
  }

  void progress() { ucp_worker_progress(worker_); }
  void finish(ucs_status_ptr_t request) {
    if (request == nullptr) return;
    if (UCS_PTR_IS_ERR(request)) check(UCS_PTR_STATUS(request), "operation");
    while (ucp_request_check_status(request) == UCS_INPROGRESS) progress();
    check(ucp_request_check_status(request), "operation");
    ucp_request_free(request);
  }

 private:
  struct names {
    std::uint64_t buffer, address_bytes, key_bytes;
  };
  void publish(ucp_context_h context) {
    ucp_address_t* address = nullptr;
    void* packed = nullptr;
    size_t address_bytes = 0, key_bytes = 0;
    check(ucp_worker_get_address(worker_, &address, &address_bytes), "ucp_worker_get_address");
    check(ucp_rkey_pack(context, memory_, &packed, &key_bytes), "ucp_rkey_pack");
    const names mine{reinterpret_cast<std::uintptr_t>(in.data()), address_bytes, key_bytes};
    card& to = page_.cards[number_];
    if (sizeof mine + address_bytes + key_bytes > sizeof to.bytes)
      throw std::runtime_error("its address is too long for the board");
    std::memcpy(to.bytes, &mine, sizeof mine);
    std::memcpy(to.bytes + sizeof mine, address, address_bytes);
    std::memcpy(to.bytes + sizeof mine + address_bytes, packed, key_bytes);
    // edge perf.card, writer: the bytes are visible to connect() of the other end.
    to.size.store(1, std::memory_order_release);
    ucp_worker_release_address(worker_, address);
    ucp_rkey_buffer_release(packed);
  }
  void connect() {
    const card& from = page_.cards[number_ ^ 1];
    // edge perf.card, reader
    for (patience step; from.size.load(std::memory_order_acquire) == 0;) step();
    names theirs{};
    std::memcpy(&theirs, from.bytes, sizeof theirs);
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = reinterpret_cast<const ucp_address_t*>(from.bytes + sizeof theirs);
    check(ucp_ep_create(worker_, &params, &peer), "ucp_ep_create");
    check(ucp_ep_rkey_unpack(peer, from.bytes + sizeof theirs + theirs.address_bytes, &key),
          "ucp_ep_rkey_unpack");
    there = theirs.buffer;
  }
  // A large message is here only as a promise.
  ucs_status_t on_message(void* data, size_t size, const ucp_am_recv_param_t* how) {
    if ((how->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0) {
      ++arrived;
      return UCS_OK;
    }
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.user_data = this;
    param.cb.recv_am = [](void* request, ucs_status_t, size_t, void* self) {
      ++static_cast<seat_end*>(self)->arrived;
      ucp_request_free(request);
    };
    const ucs_status_ptr_t request = ucp_am_recv_data_nbx(worker_, data, in.data(), size, &param);
    if (request == nullptr) ++arrived;
    return UCS_PTR_IS_ERR(request) ? UCS_PTR_STATUS(request) : UCS_INPROGRESS;
  }

  board& page_;
  std::size_t number_;
  ucp_worker_h worker_ = nullptr;
  ucp_mem_h memory_ = nullptr;

 public:
  page_buffer out, in, last;  // last: the source of the last put before an answer
  ucp_ep_h peer = nullptr;
  ucp_rkey_h key = nullptr;
  std::uint64_t there = 0;                               // the other end's buffer
  std::uint64_t arrived = 0;                             // active messages
  std::uint64_t answers_sent = 0, answers_expected = 0;  // those that follow puts
  ucp_worker_h worker() const { return worker_; }
};

struct port {
  explicit port(seat_end& e) : e_(e) {}
  void progress() { e_.progress(); }
  void finish() {
    for (const ucs_status_ptr_t request : sends_) e_.finish(request);
    sends_.clear();
  }

 protected:
  void keep(ucs_status_ptr_t request) {
    if (request != nullptr) sends_.push_back(request);
  }
  seat_end& e_;
  std::vector<ucs_status_ptr_t> sends_;
  ucp_request_param_t none_{};
};

struct am_port : port {
  explicit am_port(seat_end& e) : port(e), expected_(e.arrived) {}
  void start(char* data, std::size_t size) {
    keep(ucp_am_send_nbx(e_.peer, 0, nullptr, 0, data, size, &none_));
    // A stream: what cannot go out now would fill the memory.
    if (sends_.size() >= MOST_IN_WINDOW) finish();
  }
  void expect(char*, std::size_t) { ++expected_; }
  void wait() {
    while (e_.arrived < expected_) e_.progress();
  }
  void send(char* data, std::size_t size) { start(data, size), finish(); }
  void recv(char* data, std::size_t size) { expect(data, size), wait(); }

 private:
  std::uint64_t expected_;
};

struct sendrecv_port : port {
  using port::port;
  void start(char* data, std::size_t size) {
    keep(ucp_tag_send_nbx(e_.peer, data, size, 1, &none_));
  }
  void expect(char* data, std::size_t size) {
    const ucs_status_ptr_t request =
        ucp_tag_recv_nbx(e_.worker(), data, size, 1, ~ucp_tag_t{0}, &none_);
    if (request != nullptr) receives_.push_back(request);
  }
  void wait() {
    for (const ucs_status_ptr_t request : receives_) e_.finish(request);
    receives_.clear();
  }
  void send(char* data, std::size_t size) { start(data, size), finish(); }
  void recv(char* data, std::size_t size) { expect(data, size), wait(); }

 private:
  std::vector<ucs_status_ptr_t> receives_;
};

// A put tells nobody that it has arrived: the target looks at the last bytes of the last put before
// an answer, as UCX's own benchmark does it. Those are a number, which grows from one answer to the
// next, so that nothing that was there before is taken for it. That put has a source of its own:
// those before it may still be read.
struct put_port : port {
  using port::port;
  void start(char* data, std::size_t size, bool is_last) {
    if (sends_.size() >= MOST_IN_WINDOW) finish();
    if (is_last) {
      if (is_behind_others_) check(ucp_worker_fence(e_.worker()), "ucp_worker_fence");
      write_number(e_.last.data() + size - NUMBER_BYTES, ++e_.answers_sent);
      data = e_.last.data();
    }
    keep(ucp_put_nbx(e_.peer, data, size, e_.there, e_.key, &none_));
    is_behind_others_ = !is_last;
  }
  void expect(char* data, std::size_t size) { number_ = data + size - NUMBER_BYTES; }
  void wait() {
    char expected[NUMBER_BYTES];
    write_number(expected, ++e_.answers_expected);
    while (!is_there(expected)) e_.progress();
  }
  void send(char* data, std::size_t size) { start(data, size, true), finish(); }
  void recv(char* data, std::size_t size) { expect(data, size), wait(); }

 private:
  static constexpr std::size_t NUMBER_BYTES = 8;
  // The byte that changes most comes last, as the last to arrive; messages of any size have it.
  static void write_number(char* to, std::uint64_t number) {
    const std::uint64_t reversed = __builtin_bswap64(number);
    std::memcpy(to, &reversed, sizeof reversed);
  }
  bool is_there(const char* expected) const {
    for (std::size_t i = NUMBER_BYTES; i-- > 0;) {
      // edge perf.put, reader: other side in the library, or in a card.
      const std::atomic_ref<char> byte(number_[i]);
      if (byte.load(std::memory_order_acquire) != expected[i]) return false;
    }
    return true;
  }

  bool is_behind_others_ = false;  // of the same answer
  char* number_ = nullptr;
};

struct get_port : port {
  using port::port;
  void start(char* data, std::size_t size) {
    keep(ucp_get_nbx(e_.peer, data, size, e_.there, e_.key, &none_));
  }
  void expect(char*, std::size_t) {}
  void wait() {}
  void send(char*, std::size_t) {}
  void recv(char*, std::size_t) {}
};

template <class Port>
void run(seat& s, seat_end& e, const order& o) {
  Port with(e);
  execute(s, with, e.out.data(), e.in.data(), o);
}

void serve_seat(library& all, board& page, int pair, bool is_first) {
  seat mine(page, pair, is_first);
  mine.pin();
  seat_end e(all, page, 2 * pair + (is_first ? 0 : 1));
  mine.serve([&](const order& o) {
    if (o.op == operation::am) run<am_port>(mine, e, o);
    if (o.op == operation::sendrecv) run<sendrecv_port>(mine, e, o);
    if (o.op == operation::put) run<put_port>(mine, e, o);
    if (o.op == operation::get) run<get_port>(mine, e, o);
  });
}

void serve_all(board& page) {
  if (page.is_gpu != 0) throw std::runtime_error("lci_perf measures it between host memory only");
  if (page.is_shared != 0)
    throw std::runtime_error("lci_perf gives each thread a worker of its own");
  std::snprintf(page.version, sizeof page.version, "UCX %s", ucp_get_version_string());
  page.operations.store(
      bit(operation::am) | bit(operation::sendrecv) | bit(operation::put) | bit(operation::get),
      std::memory_order_relaxed);
  library all(page);
  run_seats(page, std::atoi(std::getenv(RANK_VARIABLE)),
            [&](int pair, bool is_first) { serve_seat(all, page, pair, is_first); });
  std::fflush(stdout);
  std::_Exit(0);
}

}  // namespace

int main() { return run_worker("lci_perf_ucx", serve_all); }
