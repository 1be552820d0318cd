/*
 * redis_tls.c
 *		The only file that knows OpenSSL.
 *
 * Rules: TLS 1.2 or later; the certificate is verified always, and the name
 * unless the server's option says verify-ca. An address is compared with the
 * addresses of the certificate, a name with its names. Nothing here waits:
 * each call says what to wait for. Nothing here raises an error, so that no
 * object of OpenSSL is lost on the way.
 */
#include "postgres.h"

#include "redis_tls.h"

#ifdef LOCKFENCE_WITH_TLS

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

struct RedisTls
{
	SSL_CTX    *context;
	SSL		   *ssl;
};

/* redis_tls_supported: was this built with OpenSSL? */
bool
redis_tls_supported(void)
{
	return true;
}

static void
last_error(const char *what, char *problem, int size)
{
	unsigned long code = ERR_get_error();
	const char *reason = code != 0 ? ERR_reason_error_string(code) : NULL;

	snprintf(problem, size, "%s: %s", what, reason ? reason : "unknown reason");
	ERR_clear_error();
}

static bool
is_address(const char *name)
{
	struct in6_addr address;

	return inet_pton(AF_INET, name, &address) == 1 ||
		inet_pton(AF_INET6, name, &address) == 1;
}

/* What the other side must show. */
static bool
set_identity(SSL *ssl, const RedisTlsParams *params)
{
	X509_VERIFY_PARAM *verify = SSL_get0_param(ssl);

	if (!is_address(params->name) &&
		SSL_set_tlsext_host_name(ssl, params->name) != 1)
		return false;
	if (!params->verify_name)
		return true;
	if (is_address(params->name))
		return X509_VERIFY_PARAM_set1_ip_asc(verify, params->name) == 1;
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return SSL_set1_host(ssl, params->name) == 1;
}

static bool
set_up(RedisTls *tls, int fd, const RedisTlsParams *params, char *problem, int size)
{
	tls->context = SSL_CTX_new(TLS_client_method());
	if (tls->context == NULL ||
		SSL_CTX_set_min_proto_version(tls->context, TLS1_2_VERSION) != 1)
	{
		last_error("could not set up TLS", problem, size);
		return false;
	}
	SSL_CTX_set_verify(tls->context, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_mode(tls->context, SSL_MODE_ENABLE_PARTIAL_WRITE |
					 SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	if (params->rootcert != NULL ?
		SSL_CTX_load_verify_locations(tls->context, params->rootcert, NULL) != 1 :
		SSL_CTX_set_default_verify_paths(tls->context) != 1)
	{
		last_error("could not load the root certificates", problem, size);
		return false;
	}
	if (params->cert != NULL &&
		(SSL_CTX_use_certificate_chain_file(tls->context, params->cert) != 1 ||
		 SSL_CTX_use_PrivateKey_file(tls->context, params->key, SSL_FILETYPE_PEM) != 1 ||
		 SSL_CTX_check_private_key(tls->context) != 1))
	{
		last_error("could not load the client certificate", problem, size);
		return false;
	}
	tls->ssl = SSL_new(tls->context);
	if (tls->ssl == NULL || SSL_set_fd(tls->ssl, fd) != 1 ||
		!set_identity(tls->ssl, params))
	{
		last_error("could not set up TLS", problem, size);
		return false;
	}
	return true;
}

/*
 * redis_tls_begin
 *
 * Get ready for a handshake over a connected socket. NULL with the problem in
 * words if that cannot be.
 */
RedisTls *
redis_tls_begin(int fd, const RedisTlsParams *params, char *problem, int size)
{
	RedisTls   *tls = calloc(1, sizeof(RedisTls));

	if (tls == NULL)
	{
		snprintf(problem, size, "out of memory");
		return NULL;
	}
	ERR_clear_error();
	if (set_up(tls, fd, params, problem, size))
		return tls;
	redis_tls_end(tls);
	return NULL;
}

static RedisTlsResult
result_of(RedisTls *tls, int done)
{
	switch (SSL_get_error(tls->ssl, done))
	{
		case SSL_ERROR_NONE:
			return REDIS_TLS_DONE;
		case SSL_ERROR_WANT_READ:
			return REDIS_TLS_READ;
		case SSL_ERROR_WANT_WRITE:
			return REDIS_TLS_WRITE;
		case SSL_ERROR_ZERO_RETURN:
			return REDIS_TLS_CLOSED;
		case SSL_ERROR_SYSCALL:
			return ERR_peek_error() == 0 ? REDIS_TLS_CLOSED : REDIS_TLS_FAILED;
		default:
#ifdef SSL_R_UNEXPECTED_EOF_WHILE_READING
			if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
				return REDIS_TLS_CLOSED;
#endif
			return REDIS_TLS_FAILED;
	}
}

/* redis_tls_handshake: to be called again when the socket is ready */
RedisTlsResult
redis_tls_handshake(RedisTls *tls)
{
	ERR_clear_error();
	return result_of(tls, SSL_connect(tls->ssl));
}

/* redis_tls_send: as much as goes now; *sent bytes of it */
RedisTlsResult
redis_tls_send(RedisTls *tls, const char *data, int len, int *sent)
{
	int			done;

	ERR_clear_error();
	done = SSL_write(tls->ssl, data, len);
	*sent = Max(done, 0);
	return result_of(tls, done);
}

/* redis_tls_receive: what is there, at most size bytes; *received of them */
RedisTlsResult
redis_tls_receive(RedisTls *tls, char *data, int size, int *received)
{
	int			done;

	ERR_clear_error();
	done = SSL_read(tls->ssl, data, size);
	*received = Max(done, 0);
	return result_of(tls, done);
}

/* redis_tls_problem: why the last call failed */
void
redis_tls_problem(RedisTls *tls, char *problem, int size)
{
	long		verdict = SSL_get_verify_result(tls->ssl);

	if (verdict != X509_V_OK)
	{
		snprintf(problem, size, "certificate verify failed: %s",
				 X509_verify_cert_error_string(verdict));
		ERR_clear_error();
	}
	else
		last_error("TLS failed", problem, size);
}

/* redis_tls_end: the socket stays the caller's */
void
redis_tls_end(RedisTls *tls)
{
	if (tls->ssl != NULL)
		SSL_free(tls->ssl);
	if (tls->context != NULL)
		SSL_CTX_free(tls->context);
	free(tls);
	ERR_clear_error();
}

#else							/* no OpenSSL */

bool
redis_tls_supported(void)
{
	return false;
}

RedisTls *
redis_tls_begin(int fd, const RedisTlsParams *params, char *problem, int size)
{
	snprintf(problem, size, "TLS is not supported by this build");
	return NULL;
}

RedisTlsResult
redis_tls_handshake(RedisTls *tls)
{
	return REDIS_TLS_FAILED;
}

RedisTlsResult
redis_tls_send(RedisTls *tls, const char *data, int len, int *sent)
{
	return REDIS_TLS_FAILED;
}

RedisTlsResult
redis_tls_receive(RedisTls *tls, char *data, int size, int *received)
{
	return REDIS_TLS_FAILED;
}

void
redis_tls_problem(RedisTls *tls, char *problem, int size)
{
	snprintf(problem, size, "TLS is not supported by this build");
}

void
redis_tls_end(RedisTls *tls)
{
}

#endif
