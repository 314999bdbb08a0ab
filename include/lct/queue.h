/**
 * @file lct/queue.h
 * First-in-first-out queues of pointers.
 */
#ifndef LCT_QUEUE_H
#define LCT_QUEUE_H

#include <stddef.h>

#include "lct/macros.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The kinds of queues that programs name. There are three behind them: `_ST` and LCT_QUEUE_STD are
 * for one thread at a time, `_MUTEX` have a mutex, and all others are one ring for any number of
 * threads, without locks.
 */
typedef enum {
  LCT_QUEUE_ARRAY_ATOMIC_FAA,   /**< ring without locks */
  LCT_QUEUE_ARRAY_ATOMIC_CAS,   /**< ring without locks */
  LCT_QUEUE_ARRAY_ATOMIC_BASIC, /**< ring without locks */
  LCT_QUEUE_ARRAY_ST,           /**< for one thread at a time */
  LCT_QUEUE_ARRAY_MUTEX,        /**< with a mutex */
  LCT_QUEUE_STD,                /**< for one thread at a time */
  LCT_QUEUE_STD_MUTEX,          /**< with a mutex */
  LCT_QUEUE_MS,                 /**< ring without locks */
  LCT_QUEUE_LCRQ,               /**< ring without locks */
  LCT_QUEUE_LPRQ,               /**< ring without locks */
  LCT_QUEUE_FAAARRAY,           /**< ring without locks */
  LCT_QUEUE_LAZY_INDEX          /**< ring without locks */
} LCT_queue_type_t;

/** What is behind LCT_queue_t. */
struct LCT_queue_opaque_t;
/** A queue. */
typedef struct LCT_queue_opaque_t* LCT_queue_t;

/**
 * Makes an empty queue.
 * @param type    its kind
 * @param length  elements that it has room for from the start; it grows when there are more. 0 is
 * legal
 * @return the queue, to be freed by LCT_queue_free()
 * @throws std::runtime_error  the kind is unknown
 * Threads: any.
 */
LCT_API LCT_queue_t LCT_queue_alloc(LCT_queue_type_t type, size_t length);
/**
 * Frees a queue, and sets the variable to null. What is still in it is the caller's.
 * @param queue  the queue that nobody uses any more; null is left alone
 * Threads: one.
 */
LCT_API void LCT_queue_free(LCT_queue_t* queue);
/**
 * Appends a pointer. Never refuses: a queue that is longer than ever before takes memory.
 * @param queue  the queue
 * @param val    the pointer; not null, which means empty to who takes it out
 * @throws std::runtime_error  it is null
 * Threads: any, but for the kinds of one thread.
 */
LCT_API void LCT_queue_push(LCT_queue_t queue, void* val);
/**
 * Takes out the oldest pointer.
 * @param queue  the queue
 * @return the pointer; null when the queue is empty
 * Threads: any, but for the kinds of one thread.
 */
LCT_API void* LCT_queue_pop(LCT_queue_t queue);

#ifdef __cplusplus
}
#endif

#endif /* LCT_QUEUE_H */
