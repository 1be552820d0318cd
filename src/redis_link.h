/*
 * redis_link.h
 *		A byte stream to Redis that can be interrupted.
 */
#ifndef REDIS_LINK_H
#define REDIS_LINK_H

#include "redis_option.h"
#include "redis_tls.h"

typedef struct RedisLink
{
	int			fd;				/* -1: closed; the rest is invalid then */
	RedisTls   *tls;			/* NULL: plain */
} RedisLink;

typedef enum RedisStream
{
	REDIS_STREAM_OK,
	REDIS_STREAM_CLOSED,		/* by the other side, or reset */
	REDIS_STREAM_LATE			/* the deadline has passed */
} RedisStream;

extern int64 redis_clock(void);

extern bool redis_link_spare(void);
extern bool redis_link_open(RedisLink *link, const char *server,
							const RedisEndpoint *endpoint,
							const RedisOptions *options, int64 deadline,
							char *reason, int size);
extern RedisStream redis_link_send(RedisLink *link, const char *data, int len,
								   int64 deadline, int *sent);
extern RedisStream redis_link_receive(RedisLink *link, char *data, int size,
									  int64 deadline, int *received);
extern bool redis_link_quiet(RedisLink *link);
extern void redis_link_close(RedisLink *link);

#endif							/* REDIS_LINK_H */
