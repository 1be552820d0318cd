/*
 * debug_point.h
 *		Named places where a test can hold a backend.
 *
 * DEBUG_POINT("name") waits while another session holds the advisory lock
 * (7001, 0) and lockfence.debug_point names the
 * place. Compiled only with -DLOCKFENCE_DEBUG_POINTS; nothing otherwise.
 */
#ifndef DEBUG_POINT_H
#define DEBUG_POINT_H

#include "lockfence.h"

#ifdef LOCKFENCE_DEBUG_POINTS
extern void debug_point(const char *name);
extern void debug_point_init(void);
#define DEBUG_POINT(name) debug_point(name)
#else
#define DEBUG_POINT(name) ((void) 0)
#endif

#endif							/* DEBUG_POINT_H */
