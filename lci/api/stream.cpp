// Posts and waits in the order of a stream of the program: arguments are checked, and the endpoint
// is chosen, when the stream gets them; all else happens when the post runs.
#include "lci/stream.hpp"

#include "lci/api/post_run.hpp"
#include "lci/api/remote_name.hpp"
#include "lci/comp/sync.hpp"
#include "lci/errors.hpp"

namespace lci::detail {

namespace {

// Checks what the post itself would refuse when it runs, of which a program that waits for the
// stream would learn late. The end of a peer's region may not be known yet.
void check_post(post_kind_t kind, const post_args& a, endpoint_impl_t& end) {
  const proto::core& core = end.core;
  if (kind == post_kind_t::comm) kind = api::find_operation(a);
  if (kind == post_kind_t::recv)
    api::check_source("stream_post", a, core);
  else
    api::check_rank("stream_post", a, end.device.queues.engine());
  if (kind == post_kind_t::recv || kind == post_kind_t::send) {
    api::check_policy(a);
    api::find_engine(a, end);
  } else if (kind == post_kind_t::am) {
    api::check_names_object("post_am", a.remote_comp, core);
  } else {
    api::check_rmr(a.rmr, a.rank, core);
    if (kind == post_kind_t::put)
      api::check_notification(a, core);
    else
      api::check_no_notification(a);
  }
  api::check_given(a);
  api::check_room("local_buffer", a.local_buffer, a.size, core.arena);
}

}  // namespace

stream_op_t stream_post(const stream_post_args& args) {
  post_args post = args.post;
  if (post.local_comp.is_empty())
    throw argument_error(
        "stream_post: local_comp is COMP_NULL or COMP_NULL_RETRY, but the post is run by progress, "
        "which waits for nothing; expected a completion object");
  comp::any(post.local_comp, "stream_post");
  if (!post.allow_posted)
    throw argument_error("stream_post: allow_posted is false, but no thread waits for the post");
  endpoint_impl_t& end =
      api::find_endpoint("stream_post", post.runtime, post.device, post.endpoint);
  api::check_given(post.matching_engine);
  check_post(args.kind, post, end);
  post.endpoint = endpoint_t(&end);
  // No caller sees the result, so the object must be signalled.
  post.allow_done = false;
  proto::gpu::stream_ops& streams = end.device.owner().shared.gpu.streams;
  return stream_op_t(streams.add_post(args.stream, args.run, post, &end.device.queues.engine()));
}

stream_op_t stream_wait(const stream_wait_args& args) {
  comp::as<comp::sync>(args.comp, "stream_wait");
  return stream_op_t(
      api::find_runtime(args.runtime).shared.gpu.streams.add_wait(args.stream, args.comp));
}

void free_stream_op(const free_stream_op_args& args) {
  if (args.op == nullptr) throw argument_error("free_stream_op: the pointer to the handle is null");
  api::check_given(args.runtime);
  stream_op_impl_t* const op = base::check_live(args.op->p_impl, "stream_op");
  op->owner->free(op);
  *args.op = stream_op_t();
}

}  // namespace lci::detail
