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
 * Kinds of queues. They have three implementations: `_ST` and LCT_QUEUE_STD are for one thread at a
 * time, `_MUTEX` use a mutex, and all others are one lock-free ring for any number of threads.
 */
typedef enum {
  LCT_QUEUE_ARRAY_ATOMIC_FAA,   /**< lock-free ring */
  LCT_QUEUE_ARRAY_ATOMIC_CAS,   /**< lock-free ring */
  LCT_QUEUE_ARRAY_ATOMIC_BASIC, /**< lock-free ring */
  LCT_QUEUE_ARRAY_ST,           /**< for one thread at a time */
  LCT_QUEUE_ARRAY_MUTEX,        /**< with a mutex */
  LCT_QUEUE_STD,                /**< for one thread at a time */
  LCT_QUEUE_STD_MUTEX,          /**< with a mutex */
  LCT_QUEUE_MS,                 /**< lock-free ring */
  LCT_QUEUE_LCRQ,               /**< lock-free ring */
  LCT_QUEUE_LPRQ,               /**< lock-free ring */
  LCT_QUEUE_FAAARRAY,           /**< lock-free ring */
  LCT_QUEUE_LAZY_INDEX          /**< lock-free ring */
} LCT_queue_type_t;

/** Implementation of LCT_queue_t. */
struct LCT_queue_opaque_t;
/** A queue. */
typedef struct LCT_queue_opaque_t* LCT_queue_t;

/**
 * Creates an empty queue.
 * @param type    its kind
 * @param length  initial capacity in elements; the queue grows on demand. 0 is legal
 * @return the queue; free it with LCT_queue_free()
 * @throws std::runtime_error  the kind is unknown
 * Threads: any.
 */
LCT_API LCT_queue_t LCT_queue_alloc(LCT_queue_type_t type, size_t length);
/**
 * Frees a queue and sets the pointer to null. The caller owns the elements still in it.
 * @param queue  the queue, which no thread uses any more; null is ignored
 * Threads: one.
 */
LCT_API void LCT_queue_free(LCT_queue_t* queue);
/**
 * Appends a pointer. Never refuses: the queue allocates memory when it grows.
 * @param queue  the queue
 * @param val    the pointer; not null, because LCT_queue_pop() returns null for an empty queue
 * @throws std::runtime_error  it is null
 * Threads: any, except for the single-thread kinds.
 */
LCT_API void LCT_queue_push(LCT_queue_t queue, void* val);
/**
 * Removes and returns the oldest pointer.
 * @param queue  the queue
 * @return the pointer; null if the queue is empty
 * Threads: any, except for the single-thread kinds.
 */
LCT_API void* LCT_queue_pop(LCT_queue_t queue);

#ifdef __cplusplus
}
#endif

#endif /* LCT_QUEUE_H */
