// Endpoints: what is posted, and what becomes of it.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "tests/support/fake_ofi/state.hpp"

namespace lci::test::fabric_model {
namespace {

using guard = std::lock_guard<test::library_lock<std::recursive_mutex>>;

endpoint_object& of(fid_ep* face) { return *reinterpret_cast<endpoint_object*>(face); }
endpoint_object& of(fid* face) { return *reinterpret_cast<endpoint_object*>(face); }

void check_local(const void* at, std::size_t size, const void* description) {
  if ((state().config.mr_mode & FI_MR_LOCAL) == 0 || size == 0) return;
  const auto* const memory = static_cast<const memory_object*>(description);
  if (memory == nullptr || state().memories.count(const_cast<memory_object*>(memory)) == 0)
    return state().complain("a buffer without its registration (FI_MR_LOCAL)");
  const auto* const begin = static_cast<const std::byte*>(at);
  if (begin < memory->begin || begin + size > memory->begin + memory->size)
    state().complain("a buffer outside its registration");
}

void take_context(void* context) {
  if (context != nullptr && !state().contexts.insert(context).second)
    state().complain("a context is given that the library has already");
}

// At the endpoint that it is for, or failed.
ssize_t hand_over(endpoint_object& from, fi_addr_t to, item&& one) {
  model& all = state();
  if (one.bytes.size() > all.config.most) return -FI_EMSGSIZE;
  if (to >= from.list->names.size()) return -FI_EINVAL;
  if (const int code = all.lost_with(from, to); code != 0) {
    take_context(one.context);
    if (one.context != nullptr) all.complete_with(from, one.context, code);
    return 0;
  }
  endpoint_object* const there = all.find(from.list->names[to]);
  if (there->inbox.size() >= all.config.room) return -FI_EAGAIN;
  take_context(one.context);
  one.from = &from;
  there->inbox.push_back(std::move(one));
  return 0;
}

std::vector<std::byte> copy_of(const void* at, std::size_t size) {
  const auto* const bytes = static_cast<const std::byte*>(at);
  return {bytes, bytes + size};
}

ssize_t post_message(const char* name, fid_ep* face, const void* at, std::size_t size,
                     const std::uint64_t* data, fi_addr_t to, void* context) {
  if (const int code = state().enter_post(name); code != 0) return code;
  item one;
  one.context = context;
  one.bytes = copy_of(at, size);
  one.has_data = data != nullptr;
  if (data != nullptr) {
    one.data = *data;
    if (state().config.data_bytes < 8) state().complain("data is wider than what travels");
  }
  one.wait = state().config.late_messages;
  endpoint_object& from = of(face);
  if (!state().config.completes_early) return hand_over(from, to, std::move(one));
  one.context = nullptr;
  const ssize_t code = hand_over(from, to, std::move(one));
  if (code != 0 || context == nullptr) return code;
  take_context(context);
  if (const int cut = state().lost_with(from, to); cut != 0)
    state().complete_with(from, context, cut);
  else
    state().complete(from, context, FI_MSG | FI_SEND, 0, 0);
  return 0;
}

ssize_t send(fid_ep* face, const void* at, std::size_t size, void* local, fi_addr_t to,
             void* context) {
  const guard lock(state().lock);
  check_local(at, size, local);
  return post_message("fi_send", face, at, size, nullptr, to, context);
}
ssize_t senddata(fid_ep* face, const void* at, std::size_t size, void* local, std::uint64_t data,
                 fi_addr_t to, void* context) {
  const guard lock(state().lock);
  check_local(at, size, local);
  return post_message("fi_senddata", face, at, size, &data, to, context);
}
ssize_t inject(fid_ep* face, const void* at, std::size_t size, fi_addr_t to) {
  const guard lock(state().lock);
  if (size > state().config.inject) return -FI_EMSGSIZE;
  return post_message("fi_inject", face, at, size, nullptr, to, nullptr);
}
ssize_t injectdata(fid_ep* face, const void* at, std::size_t size, std::uint64_t data,
                   fi_addr_t to) {
  const guard lock(state().lock);
  if (size > state().config.inject) return -FI_EMSGSIZE;
  return post_message("fi_injectdata", face, at, size, &data, to, nullptr);
}

ssize_t receive(fid_ep* face, void* at, std::size_t size, void* local, fi_addr_t, void* context) {
  const guard lock(state().lock);
  if (const int code = state().enter("fi_recv"); code != 0) return code;
  check_local(at, size, local);
  take_context(context);
  of(face).receives.push_back({at, size, context});
  return 0;
}

ssize_t writemsg(fid_ep* face, const fi_msg_rma* what, std::uint64_t flags) {
  const guard lock(state().lock);
  if (const int code = state().enter_post("fi_writemsg"); code != 0) return code;
  const iovec& local = what->msg_iov[0];
  check_local(local.iov_base, local.iov_len, what->desc != nullptr ? what->desc[0] : nullptr);
  item one;
  one.what = item::kind::write;
  one.context = what->context;
  one.bytes = copy_of(local.iov_base, local.iov_len);
  one.has_data = (flags & FI_REMOTE_CQ_DATA) != 0;
  one.data = what->data;
  one.is_done_late = (flags & FI_DELIVERY_COMPLETE) != 0;
  one.address = what->rma_iov[0].addr;
  one.key = what->rma_iov[0].key;
  one.size = local.iov_len;
  one.wait = state().config.late;
  if (one.is_done_late && !state().config.has_delivery)
    state().complain("FI_DELIVERY_COMPLETE, which is not there");
  endpoint_object& from = of(face);
  void* const context = one.context;
  const bool is_done_now = !one.is_done_late;
  const std::size_t failures = from.queue->failed.size();
  const ssize_t code = hand_over(from, what->addr, std::move(one));
  // The buffer is free; of the target nothing is known.
  if (code == 0 && is_done_now && from.queue->failed.size() == failures)
    state().complete(from, context, FI_RMA | FI_WRITE, 0, 0);
  return code;
}

ssize_t read(fid_ep* face, void* into, std::size_t size, void* local, fi_addr_t from,
             std::uint64_t address, std::uint64_t key, void* context) {
  const guard lock(state().lock);
  if (const int code = state().enter_post("fi_read"); code != 0) return code;
  check_local(into, size, local);
  item one;
  one.what = item::kind::read;
  one.context = context;
  one.is_done_late = true;
  one.address = address;
  one.key = key;
  one.size = size;
  one.into = into;
  return hand_over(of(face), from, std::move(one));
}

// Null: the target does not allow it.
std::byte* reach(const endpoint_object& at, const item& one) {
  const memory_object* const memory = state().find_key(at, one.key);
  const std::uint64_t need = one.what == item::kind::write ? FI_REMOTE_WRITE : FI_REMOTE_READ;
  if (memory == nullptr || (memory->access & need) == 0) return nullptr;
  const bool is_virtual = (state().config.mr_mode & FI_MR_VIRT_ADDR) != 0;
  const std::uint64_t offset =
      is_virtual ? one.address - reinterpret_cast<std::uint64_t>(memory->begin) : one.address;
  if (offset > memory->size || one.size > memory->size - offset) return nullptr;
  return memory->begin + offset;
}

void finish(const item& one, int code) {
  if (one.from == nullptr || one.context == nullptr || !one.is_done_late) return;
  if (code != 0) return state().complete_with(*one.from, one.context, code);
  const std::uint64_t what = one.what == item::kind::read ? FI_READ : FI_WRITE;
  state().complete(*one.from, one.context, FI_RMA | what, 0, 0);
}

void access(endpoint_object& at, const item& one) {
  std::byte* const there = reach(at, one);
  if (there == nullptr) return finish(one, FI_EACCES);
  if (one.what == item::kind::read) {
    if (one.from != nullptr) std::memcpy(one.into, there, one.size);
  } else if (one.size != 0) {
    std::memcpy(there, one.bytes.data(), one.size);
  }
  finish(one, 0);
  if (one.has_data)
    state().complete(at, nullptr, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, one.size, one.data);
}

// False: nobody has asked for it yet.
bool deliver(endpoint_object& at, const item& one) {
  if (at.receives.empty()) return false;
  const endpoint_object::receive into = at.receives.front();
  at.receives.pop_front();
  if (one.bytes.size() > into.size) {
    state().complete_with(at, into.context, FI_ETRUNC);
  } else {
    if (!one.bytes.empty()) std::memcpy(into.at, one.bytes.data(), one.bytes.size());
    state().complete(at, into.context, FI_MSG | FI_RECV | (one.has_data ? FI_REMOTE_CQ_DATA : 0),
                     one.bytes.size(), one.data);
  }
  if (one.from != nullptr && one.context != nullptr)
    state().complete(*one.from, one.context, FI_MSG | FI_SEND, 0, 0);
  return true;
}

// One thing that can be carried out now; false: none can. What is late lets later messages pass.
bool step(endpoint_object& at) {
  bool is_blocked = false;
  for (auto next = at.inbox.begin(); next != at.inbox.end(); ++next) {
    if (next->wait != 0) {
      --next->wait;
      is_blocked |= next->what == item::kind::message;
      continue;
    }
    if (next->what == item::kind::message && is_blocked) continue;
    item one = *next;
    if (one.what != item::kind::message) {
      at.inbox.erase(next);
      access(at, one);
      return true;
    }
    if (deliver(at, one)) {
      at.inbox.erase(next);
      return true;
    }
    if (state().config.keeps_order) return false;
    is_blocked = true;
  }
  return false;
}

int close_endpoint(fid* face) {
  const guard lock(state().lock);
  endpoint_object& it = of(face);
  model& all = state();
  for (memory_object* one : all.memories)
    if (one->bound == &it) all.complain("an endpoint is closed before a registration bound to it");
  fail_inbox(it, FI_ECONNRESET);
  for (const auto& [name, other] : all.endpoints)
    for (item& one : other->inbox)
      if (one.from == &it) {
        all.contexts.erase(one.context);
        one.from = nullptr;
      }
  for (const auto& one : it.receives) all.contexts.erase(one.context);
  if (it.queue != nullptr) {
    for (const auto& one : it.queue->done) all.contexts.erase(one.op_context);
    std::erase(it.queue->endpoints, &it);
    --it.queue->users;
  }
  if (it.list != nullptr) --it.list->users;
  --it.on->children;
  all.endpoints.erase(it.name);
  all.objects.erase(&it);
  delete &it;
  return 0;
}

int bind(fid* face, fid* to, std::uint64_t) {
  const guard lock(state().lock);
  if (const int code = state().enter("fi_ep_bind"); code != 0) return code;
  endpoint_object& it = of(face);
  if (to->fclass == FI_CLASS_CQ) {
    it.queue = reinterpret_cast<queue_object*>(to);
    ++it.queue->users;
    it.queue->endpoints.push_back(&it);
  } else {
    it.list = reinterpret_cast<addresses_object*>(to);
    ++it.list->users;
  }
  return 0;
}

int enable(fid* face, int command, void*) {
  const guard lock(state().lock);
  if (const int code = state().enter("fi_enable"); code != 0) return code;
  of(face).is_enabled = command == FI_ENABLE;
  return 0;
}
fi_ops endpoint_ops = calls_of(close_endpoint, bind, enable);

int getname(fid* face, void* to, std::size_t* size) {
  const guard lock(state().lock);
  if (const int code = state().enter("fi_getname"); code != 0) return code;
  const std::string bytes = state().address_of(of(face).name);
  const std::size_t room = *size;
  *size = bytes.size();
  if (*size > room) return -FI_ETOOSMALL;
  std::memcpy(to, bytes.data(), *size);
  return 0;
}
fi_ops_cm naming{};
fi_ops_msg messages{};
fi_ops_rma accesses{};

void fill_tables() {
  naming.size = sizeof(naming);
  naming.getname = getname;
  messages.size = sizeof(messages);
  messages.recv = receive;
  messages.send = send;
  messages.senddata = senddata;
  messages.inject = inject;
  messages.injectdata = injectdata;
  accesses.size = sizeof(accesses);
  accesses.read = read;
  accesses.writemsg = writemsg;
}

}  // namespace

void fail_inbox(endpoint_object& of_whom, int code) {
  for (item& one : std::exchange(of_whom.inbox, {})) {
    if (one.from == nullptr || one.context == nullptr) continue;
    if (one.what == item::kind::message || one.is_done_late)
      state().complete_with(*one.from, one.context, code);
  }
}

void progress(queue_object& queue) {
  for (endpoint_object* one : queue.endpoints)
    for (int i = 0; i < 64 && step(*one); ++i) {
    }
}

int open_endpoint(fid_domain* on, fi_info*, fid_ep** out, void*) {
  const guard lock(state().lock);
  if (const int code = state().enter("fi_endpoint"); code != 0) return code;
  fill_tables();
  auto* const made = new endpoint_object;
  made->on = reinterpret_cast<domain_object*>(on);
  ++made->on->children;
  made->name = state().config.name_prefix + std::to_string(++state().names);
  made->face.fid = {FI_CLASS_EP, nullptr, &endpoint_ops};
  made->face.cm = &naming;
  made->face.msg = &messages;
  made->face.rma = &accesses;
  state().endpoints[made->name] = made;
  state().objects.insert(made);
  *out = &made->face;
  return 0;
}

}  // namespace lci::test::fabric_model
