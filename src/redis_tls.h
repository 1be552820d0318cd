/*
 * redis_tls.h
 *		TLS over a non-blocking socket.
 *
 * In a build without OpenSSL the functions exist and every handshake fails.
 */
#ifndef REDIS_TLS_H
#define REDIS_TLS_H

#include "lockfence.h"

typedef struct RedisTlsParams
{
	const char *name;			/* host name or address that is asked for */
	bool		verify_name;
	const char *rootcert;		/* NULL: those of the system */
	const char *cert;
	const char *key;
} RedisTlsParams;

typedef enum RedisTlsResult
{
	REDIS_TLS_DONE,
	REDIS_TLS_READ,				/* wait until the socket can be read */
	REDIS_TLS_WRITE,
	REDIS_TLS_CLOSED,			/* by the other side, or reset */
	REDIS_TLS_FAILED			/* see redis_tls_problem() */
} RedisTlsResult;

typedef struct RedisTls RedisTls;

extern bool redis_tls_supported(void);
extern RedisTls *redis_tls_begin(int fd, const RedisTlsParams *params,
								 char *problem, int size);
extern RedisTlsResult redis_tls_handshake(RedisTls *tls);
extern RedisTlsResult redis_tls_send(RedisTls *tls, const char *data, int len,
									 int *sent);
extern RedisTlsResult redis_tls_receive(RedisTls *tls, char *data, int size,
										int *received);
extern void redis_tls_problem(RedisTls *tls, char *problem, int size);
extern void redis_tls_end(RedisTls *tls);

#endif							/* REDIS_TLS_H */
