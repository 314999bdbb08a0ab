// Posts and waits in the order of a stream of the program: arguments are checked, and the endpoint
// is settled, when the stream gets them; all else when the post runs.
#include "lci/stream.hpp"

#include "lci/api/buffers.hpp"
#include "lci/api/resolve.hpp"
#include "lci/comp/sync.hpp"
#include "lci/errors.hpp"

namespace lci::detail {

stream_op_t stream_post(const stream_post_args& args) {
  post_args post = args.post;
  if (post.local_comp.is_empty())
    throw argument_error(
        "stream_post: local_comp is COMP_NULL or COMP_NULL_RETRY, but the post is run by progress, "
        "which waits for nothing; expected a completion object");
  comp::any(post.local_comp, "stream_post");
  if (!post.allow_posted)
    throw argument_error("stream_post: allow_posted is false, but nobody waits for the post");
  api::check_buffer("local_buffer", post.local_buffer, post.size, post.mr);
  endpoint_impl_t& end = api::find_endpoint(post.runtime, post.device, post.endpoint);
  api::check_room("local_buffer", post.local_buffer, post.size, end.core.arena);
  api::check_given(post.packet_pool);
  api::check_given(post.matching_engine);
  post.endpoint = endpoint_t(&end);
  // Nobody sees the answer, so the object has to be told.
  post.allow_done = false;
  proto::core& core = end.device.owner().core;
  return stream_op_t(core.streams.add_post(args.stream, args.run, post, &end.device.channel));
}

stream_op_t stream_wait(const stream_wait_args& args) {
  comp::as<comp::sync>(args.comp, "stream_wait");
  return stream_op_t(api::find_runtime(args.runtime).core.streams.add_wait(args.stream, args.comp));
}

void free_stream_op(const free_stream_op_args& args) {
  if (args.op == nullptr) throw argument_error("free_stream_op: the pointer to the handle is null");
  api::check_given(args.runtime);
  stream_op_impl_t* const op = base::check_live(args.op->p_impl, "stream_op");
  op->owner->free(op);
  *args.op = stream_op_t();
}

}  // namespace lci::detail
