/* The C face of this room: one structure of parameters for each call, passed by value, the same on
 * processors and in kernels. A caller keeps its own indices; who wants many producers, limits and
 * back pressure takes send_queue.hpp.
 * Callers: C and C++ programs, which link liblci, and kernels, which link nothing: with nvcc the
 * functions are inline. Threads: any, each with its own range of a ring and its own register.
 * Always true: a negative answer is a lci_wqe_status_t. Nothing was written then, but by
 * LCI_WQE_FAILED, a completion that was read and given back, and by LCI_WQE_CUDA_ERROR of a launch,
 * after which nobody knows. */
#ifndef LCI_WQE_C_FACE_H
#define LCI_WQE_C_FACE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lci_wqe_status_t {
  LCI_WQE_OK = 0,
  LCI_WQE_NOTHING = -1, /* no completion yet */
  LCI_WQE_FAILED = -2,  /* the completion is an error: see lci_cqe_t */
  LCI_WQE_BAD_OPCODE = -16,
  LCI_WQE_BAD_LENGTH = -17,
  LCI_WQE_BAD_QPN = -18,
  LCI_WQE_TOO_MANY_OCTOWORDS = -19,
  LCI_WQE_BAD_RING = -20,
  LCI_WQE_LONGER_THAN_RING = -21,
  LCI_WQE_INLINE_TOO_LONG = -22,
  LCI_WQE_INLINE_FROM_DEVICE = -23, /* of the C++ calls alone: see inline_data */
  LCI_WQE_INLINE_WITHOUT_MEANING = -24,
  LCI_WQE_BAD_ATOMIC_LENGTH = -25,
  LCI_WQE_MISALIGNED_ATOMIC = -26,
  LCI_WQE_BAD_ENTRY_COUNT = -27,
  LCI_WQE_BAD_CQE_SIZE = -28,
  LCI_WQE_BAD_FENCE = -31,
  LCI_WQE_BAD_DOORBELL_FORM = -32,
  LCI_WQE_NO_GPU = -40,
  LCI_WQE_CUDA_ERROR = -41
} lci_wqe_status_t;

typedef enum lci_wqe_opcode_t {
  LCI_WQE_NOP = 0x00,
  LCI_WQE_SEND_INVAL = 0x01,
  LCI_WQE_RDMA_WRITE = 0x08,
  LCI_WQE_RDMA_WRITE_IMM = 0x09,
  LCI_WQE_SEND = 0x0a,
  LCI_WQE_SEND_IMM = 0x0b,
  LCI_WQE_RDMA_READ = 0x10,
  LCI_WQE_ATOMIC_CS = 0x11,
  LCI_WQE_ATOMIC_FA = 0x12,
  LCI_WQE_ATOMIC_MASKED_CS = 0x14,
  LCI_WQE_ATOMIC_MASKED_FA = 0x15,
  LCI_WQE_DUMP = 0x23
} lci_wqe_opcode_t;

typedef enum lci_wqe_fence_t {
  LCI_WQE_FENCE_NONE = 0,
  LCI_WQE_FENCE_SMALL = 0x20,
  LCI_WQE_FENCE_FULL = 0x80
} lci_wqe_fence_t;

typedef enum lci_doorbell_form_t {
  LCI_DOORBELL_EIGHT_BYTES = 0,
  LCI_DOORBELL_SYNTHESIZED = 1,
  LCI_DOORBELL_BLUEFLAME = 2,
  LCI_DOORBELL_MAILBOX = 3
} lci_doorbell_form_t;

typedef struct lci_send_wqe_params_t {
  void* ring;       /* aligned to 64 bytes */
  uint64_t index;   /* of the first block, counts blocks of 64 bytes and never wraps */
  uint32_t wqe_cnt; /* blocks of the ring, a power of two */
  uint32_t qpn;
  uint32_t opcode; /* lci_wqe_opcode_t */
  uint32_t fence;  /* lci_wqe_fence_t */
  int signaled;
  int solicited;
  uint32_t imm; /* host order; of SEND_INVAL the key to invalidate */
  uint32_t lkey;
  uint64_t laddr;
  uint64_t length; /* 0: no data */
  uint64_t raddr;
  uint32_t rkey;
  uint32_t inline_length;  /* not 0: inline_data travels in the request, length must be 0 */
  const void* inline_data; /* copied before the call returns, by who makes it: a processor cannot
                              read memory of a GPU, and nobody looks whether it is */
  uint32_t max_inline;     /* of the queue pair; 0: 28 bytes */
  uint32_t atomic_size;    /* 8, or 4 in masked atomics; 0: 8 */
  uint64_t swap_add, compare, swap_mask, compare_mask;
  int64_t* answer; /* where a kernel puts what the call returns; null elsewhere */
} lci_send_wqe_params_t;

typedef struct lci_recv_wqe_params_t {
  void* ring;
  uint64_t index;   /* counts entries and never wraps */
  uint32_t wqe_cnt; /* entries, a power of two */
  uint32_t stride;  /* bytes of an entry; 0: 16 */
  uint64_t laddr;
  uint64_t length;
  uint32_t lkey;
  int64_t* answer;
} lci_recv_wqe_params_t;

typedef struct lci_db_ring_params_t {
  uint32_t* dbrec;     /* two words, receive and send */
  uint64_t next_index; /* after the last request */
  int is_receive;      /* not 0: the record is all there is, and what follows is not used */
  uint32_t form;       /* lci_doorbell_form_t */
  void* target;        /* the register, or the mailbox of 8 bytes */
  void* ring;
  uint32_t wqe_cnt;
  uint64_t last_index;  /* where the last request begins; its queue number is in it */
  int single;           /* it is the only one since the last ring */
  uint32_t buffer_size; /* of each half of a BlueFlame register; 0: it is none */
  uint32_t*
      buffer_used; /* which half is next, kept by the caller, 0 at first; null: always the first */
  int64_t* answer;
} lci_db_ring_params_t;

typedef struct lci_cqe_t {
  uint32_t qpn;
  uint32_t byte_count; /* of requests it has a meaning for reads only */
  uint32_t imm;
  uint16_t wqe_counter; /* first block of a request, number of a receive; 16 bits of it */
  uint8_t opcode;       /* of the completion */
  uint8_t send_opcode;  /* lci_wqe_opcode_t, of requests */
  uint8_t syndrome;     /* of errors */
  uint8_t vendor_error;
} lci_cqe_t;

typedef struct lci_cqe_poll_params_t {
  void* cq;
  uint64_t consumer_index; /* counts entries and never wraps */
  uint32_t cqe_cnt;        /* a power of two */
  uint32_t cqe_size;       /* 64 or 128; 0: 64 */
  uint32_t* dbrec;         /* the entry is given back here; null: the caller does it */
  lci_cqe_t* cqe;          /* what it says; may be null */
  int64_t* answer;
} lci_cqe_poll_params_t;

#if defined(__GNUC__)
#define LCI_WQE_API __attribute__((visibility("default")))
#else
#define LCI_WQE_API
#endif

#ifndef __CUDACC__
/* Writes a request. Returns how many blocks it took, by which the index advances. */
LCI_WQE_API int64_t lci_send_wqe(lci_send_wqe_params_t params);
/* Writes a receive entry. Returns 1. */
LCI_WQE_API int64_t lci_recv_wqe(lci_recv_wqe_params_t params);
/* Makes what was written known to the card, in the right order. Returns 0. */
LCI_WQE_API int64_t lci_db_ring(lci_db_ring_params_t params);
/* Returns the byte count of the completion, LCI_WQE_NOTHING, or LCI_WQE_FAILED. */
LCI_WQE_API int64_t lci_cqe_poll(lci_cqe_poll_params_t params);
#endif
/* What a negative answer means. */
LCI_WQE_API const char* lci_wqe_text(int64_t answer);

/* The same calls made by one thread of a kernel that is started and waited for; the structures'
 * pointers are those of the GPU. For bringing up a queue and for tests: a call costs a launch, and
 * loads the code each time. In the primary context of the GPU of the current context, or of the
 * first GPU. */
LCI_WQE_API int64_t lci_launch_send_wqe(lci_send_wqe_params_t params);
LCI_WQE_API int64_t lci_launch_recv_wqe(lci_recv_wqe_params_t params);
LCI_WQE_API int64_t lci_launch_db_ring(lci_db_ring_params_t params);
LCI_WQE_API int64_t lci_launch_cqe_poll(lci_cqe_poll_params_t params);

/* Memory of a queue that kernels are to reach: rings, records, completion queues, registers. */
typedef struct lci_cuda_memory_t {
  void* host;
  size_t size;     /* what is registered are the pages that it touches */
  int is_register; /* not 0: a register of the card (UAR) */
  void* gpu;       /* out: where kernels find it */
} lci_cuda_memory_t;

/* All of them or none. What is registered already counts once more. Returns 0. */
LCI_WQE_API int64_t lci_register_cuda_memory(lci_cuda_memory_t* memory, size_t count);
LCI_WQE_API int64_t lci_unregister_cuda_memory(const lci_cuda_memory_t* memory, size_t count);
/* The reason of the calling thread's last LCI_WQE_NO_GPU or LCI_WQE_CUDA_ERROR. */
LCI_WQE_API const char* lci_wqe_last_reason(void);

#ifdef __cplusplus
}
#endif

#ifdef __CUDACC__
#include "lci/wqe/c_face_calls.hpp"
static inline __host__ __device__ int64_t lci_send_wqe(lci_send_wqe_params_t params) {
  return lci::wqe::c_face::send(params);
}
static inline __host__ __device__ int64_t lci_recv_wqe(lci_recv_wqe_params_t params) {
  return lci::wqe::c_face::receive(params);
}
static inline __host__ __device__ int64_t lci_db_ring(lci_db_ring_params_t params) {
  return lci::wqe::c_face::ring(params);
}
static inline __host__ __device__ int64_t lci_cqe_poll(lci_cqe_poll_params_t params) {
  return lci::wqe::c_face::poll(params);
}
#endif

#endif
