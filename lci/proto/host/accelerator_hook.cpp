#include "lci/proto/host/accelerator_hook.hpp"

#include <new>

#include "lci/errors.hpp"

namespace lci::proto {

namespace {

// Memory of an accelerator is found by the accelerator, so that without one there is none: code
// that comes here nevertheless is refused, in the way that each call has for that.
class null_accelerator final : public accelerator_hook {
 public:
  void use(const mem::memory_domain&) override { refuse(); }
  std::optional<errorcode_t> start_message(outgoing&) override { refuse(); }
  std::optional<errorcode_t> start_put(outgoing&, network_key&) override { refuse(); }
  std::optional<errorcode_t> start_get(outgoing&, network_key&) override { refuse(); }
  void prepare(receive&, int, tag_t, rcomp_t) override {}
  void publish(int, wire::name, match::engine&) override {}
  bool withdraw(receive&) noexcept override { return true; }
  bool write_by_cpu(void*, const void*, std::size_t) noexcept override { return false; }
  void deliver(receive&, const status_t&, const std::byte*) override { refuse(); }
  net::verdict deliver_am(comp_impl_t&, int, const std::byte*, std::size_t,
                          tag_t) noexcept override {
    return net::verdict::deferred;
  }
  void on_rts(comp_impl_t&, int, const wire::rts&) override { throw std::bad_alloc(); }
  bool deliver_at(comp_impl_t&, const status_t&, const am_place&,
                  const std::byte*) noexcept override {
    return false;
  }
  target_way find_target(wire::name, const recv_plan&, mem::region&, network_key&,
                         std::string& why_not) override {
    why_not = NOBODY;
    return target_way::staged;
  }
  void receive_staged(wire::name, const recv_plan&, const std::string&) override { refuse(); }
  void receive_in_pieces(wire::name, const recv_plan&) override { refuse(); }
  void send_in_pieces(wire::name, const send_plan&, const wire::rtr&) override { refuse(); }
  write_way prepare_write(wire::name, send_side&) noexcept override { return write_way::ready; }
  void on_drop_send(int, wire::name) noexcept override {}
  void on_drop_receive(int, wire::name) noexcept override {}
  bool has_heard(int, std::uint32_t) noexcept override { return false; }
  std::string_view change_word(mem::atomic_job&) noexcept override { return NOBODY; }

 private:
  static constexpr const char* NOBODY = "no accelerator is in use in this process";
  [[noreturn]] static void refuse() { throw backend_error(NOBODY); }
};

}  // namespace

accelerator_hook& no_accelerator() noexcept {
  // It has no state, so that nothing changes it.
  static const null_accelerator none;
  return const_cast<null_accelerator&>(none);
}

}  // namespace lci::proto
