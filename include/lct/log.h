/**
 * @file lct/log.h
 * Log lines and assertions. Each library of a program creates its own context, with its levels,
 * destination and filters.
 *
 * A line is `rank:host:pid:tid:seconds:file:func:line<context:level:tag> text`, written by one
 * call, so that lines of several processes never mix. Variables of LCT_log_ctx_default, read at its
 * first use: `LCT_LOG_LEVEL` (error, warn, diag, info, debug, trace; default warn),
 * `LCT_LOG_OUTFILE` (stderr, stdout or a path in which `%` becomes the rank; default stderr),
 * `LCT_LOG_WHITELIST` and `LCT_LOG_BLACKLIST` (comma lists of parts of tags).
 * `LCT_ABORT_ON_ASSERT=1`: a false assertion aborts the process at once, for a debugger, instead of
 * throwing. The errors of liblci are no assertions, and stay exceptions.
 */
#ifndef LCT_LOG_H
#define LCT_LOG_H

#include <stdarg.h>

#include "lct/macros.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Levels of LCT_log_ctx_default, least detailed first; other contexts may define others. */
enum LCT_log_level_default_t {
  LCT_LOG_ERROR, /**< something failed */
  LCT_LOG_WARN,  /**< something is not as intended; the default */
  LCT_LOG_DIAG,  /**< helps to find the cause */
  LCT_LOG_INFO,  /**< decisions */
  LCT_LOG_DEBUG, /**< each step */
  LCT_LOG_TRACE, /**< each message */
  LCT_LOG_MAX    /**< number of levels */
};

/** A context; null means LCT_log_ctx_default in every call. */
typedef void* LCT_log_ctx_t;
/** The library's own context. */
extern LCT_API LCT_log_ctx_t LCT_log_ctx_default;

/**
 * Creates a context. All strings are copied.
 * @param levels         names of the levels, least detailed first
 * @param count          their number
 * @param default_level  threshold if `level` is null: an index into `levels`; lines up to it are
 * printed
 * @param name           of the context, for its lines
 * @param outfile        "stderr" (also null), "stdout", or a path to append to in which `%` becomes
 * the rank
 * @param level          name of the threshold, for example from an environment variable; may be
 * null. An unknown name is logged
 * @param whitelist      comma list: lines pass if one entry is a part of their tag; null lets all
 * pass
 * @param blacklist      comma list: lines are dropped if one entry is a part of their tag; may be
 * null
 * @return the context; free it with LCT_log_ctx_free()
 * @throws std::runtime_error  no levels, or a default out of range
 * Threads: any.
 */
LCT_API LCT_log_ctx_t LCT_log_ctx_alloc(const char* const levels[], int count, int default_level,
                                        const char* name, const char* outfile, const char* level,
                                        const char* whitelist, const char* blacklist);
/**
 * Frees a context that no thread uses any more, and sets the pointer to null.
 * @param ctx  the context; LCT_log_ctx_default and null are ignored
 * Threads: any, one for each context.
 */
LCT_API void LCT_log_ctx_free(LCT_log_ctx_t* ctx);
/**
 * The threshold of a context.
 * @param ctx  the context
 * @return index of the most detailed level that is printed
 * Threads: any.
 */
LCT_API int LCT_log_get_level(LCT_log_ctx_t ctx);
/**
 * Returns when all lines of a context have been passed to the system; that is already so when
 * LCT_Log() returns.
 * @param ctx  the context
 * Threads: any.
 */
LCT_API void LCT_Log_flush(LCT_log_ctx_t ctx);

/**
 * Implementation of LCT_Log. Use LCT_Log.
 * @param ctx     the context
 * @param level   index of the level
 * @param tag     the subject of the line
 * @param file    source file of the call; func and line likewise
 * @param func    function
 * @param line    number
 * @param format  as for printf
 */
LCT_API void LCT_Log_(LCT_log_ctx_t ctx, int level, const char* tag, const char* file,
                      const char* func, int line, const char* format, ...)
    __attribute__((format(printf, 7, 8)));
/**
 * Implementation of LCT_Logv. Use LCT_Logv.
 * @param ctx     the context
 * @param level   index of the level
 * @param tag     the subject of the line
 * @param file    source file of the call; func and line likewise
 * @param func    function
 * @param line    number
 * @param format  as for printf
 * @param args    its arguments
 */
LCT_API void LCT_Logv_(LCT_log_ctx_t ctx, int level, const char* tag, const char* file,
                       const char* func, int line, const char* format, va_list args)
    __attribute__((format(printf, 7, 0)));
/**
 * Called by LCT_Assert if the expression is false; does not return.
 * @param ctx         the context
 * @param expression  its text
 * @param file        source file of the assertion; func and line likewise
 * @param func        function
 * @param line        number
 * @param format      as for printf
 */
LCT_API void LCT_Report_false_assert(LCT_log_ctx_t ctx, const char* expression, const char* file,
                                     const char* func, int line, const char* format,
                                     ...) LCT_NEVER_RETURNS __attribute__((format(printf, 6, 7)));

/** Prints a line: LCT_Log(ctx, level, tag, format, ...). The format may have a newline at its end,
 * or none. Arguments are evaluated even if the line is not printed. */
#define LCT_Log(ctx, level, tag, ...) \
  LCT_Log_(ctx, level, tag, __FILE__, __func__, __LINE__, __VA_ARGS__)
/** Likewise with the arguments in a `va_list`. */
#define LCT_Logv(ctx, level, tag, format, args) \
  LCT_Logv_(ctx, level, tag, __FILE__, __func__, __LINE__, format, args)
/** A line of level LCT_LOG_WARN: LCT_Warn(ctx, format, ...). */
#define LCT_Warn(ctx, ...) LCT_Log(ctx, LCT_LOG_WARN, "warn", __VA_ARGS__)
/**
 * Always active: LCT_Assert(ctx, expression, format, ...) throws a `std::runtime_error` that names
 * rank, process, file and expression when the expression is false, or aborts with that text if
 * `LCT_ABORT_ON_ASSERT=1`.
 */
#define LCT_Assert(ctx, expression, ...)                                                    \
  do {                                                                                      \
    if (LCT_unlikely(!(expression)))                                                        \
      LCT_Report_false_assert(ctx, #expression, __FILE__, __func__, __LINE__, __VA_ARGS__); \
  } while (0)

#ifdef LCT_DEBUG
/** LCT_Assert in programs whose LCT was built with LCT_DEBUG; else nothing. */
#define LCT_DBG_Assert(...) LCT_Assert(__VA_ARGS__)
/** LCT_Log in programs whose LCT was built with LCT_DEBUG. */
#define LCT_DBG_Log(...) LCT_Log(__VA_ARGS__)
/** LCT_Warn in programs whose LCT was built with LCT_DEBUG. */
#define LCT_DBG_Warn(...) LCT_Warn(__VA_ARGS__)
#else
/** LCT_Assert in programs whose LCT was built with LCT_DEBUG; here nothing, not even arguments. */
#define LCT_DBG_Assert(...) ((void)0)
/** LCT_Log in programs whose LCT was built with LCT_DEBUG. */
#define LCT_DBG_Log(...) ((void)0)
/** LCT_Warn in programs whose LCT was built with LCT_DEBUG. */
#define LCT_DBG_Warn(...) ((void)0)
#endif

#ifdef __cplusplus
}
#endif

#endif /* LCT_LOG_H */
