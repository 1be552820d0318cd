/*
 * redis_link.c
 *		Sockets: opens, waits, reads and writes, and nothing of what is said.
 *
 * Rules: the socket never blocks. Every wait has an absolute deadline on the
 * monotonic clock and is ended by a cancel, a time-out or a termination at
 * once, with an error; then the link stays as it is, and whoever owns it must
 * close it before it is used again. Only looking a name up cannot be
 * interrupted, which option hostaddr avoids. Descriptors are reported to the
 * server, which keeps some for itself.
 */
#include "postgres.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/fd.h"
#include "storage/latch.h"

#include "compat.h"
#include "redis_link.h"

/* Microseconds. */
#define BACKLOG_PAUSE	10000	/* between tries on a full socket */
#define SPIN			50		/* an answer is mostly there before a sleep is */

/* redis_clock: microseconds on a clock that nobody sets */
int64
redis_clock(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return (int64) INSTR_TIME_GET_MICROSEC(now);
}

/* Wait for events on the socket, or just wait. False when the time is over. */
static bool
wait_for(RedisLink *link, int events, int64 deadline, uint32 wait_event)
{
	for (;;)
	{
		int64		left = deadline - redis_clock();
		int			rc;

		if (left <= 0)
			return false;
		rc = WaitLatchOrSocket(MyLatch,
							   WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH | events,
							   link->fd, (long) ((left + 999) / 1000), wait_event);
		if (rc & WL_LATCH_SET)
		{
			ResetLatch(MyLatch);
			CHECK_FOR_INTERRUPTS();
		}
		if (rc & events)
			return true;
	}
}

/* redis_link_close: may be called for a closed one */
void
redis_link_close(RedisLink *link)
{
	if (link->fd < 0)
		return;
	if (link->tls != NULL)
		redis_tls_end(link->tls);
	link->tls = NULL;
	close(link->fd);
	link->fd = -1;
	ReleaseExternalFD();
}

/* redis_link_spare: may this backend open a socket, and wait for it? */
bool
redis_link_spare(void)
{
	bool		spare;

	if (!AcquireExternalFD())
		return false;
	spare = AcquireExternalFD();
	if (spare)
		ReleaseExternalFD();
	ReleaseExternalFD();
	return spare;
}

/* One address: connect to it, or close again and say why not. */
static bool
connect_address(RedisLink *link, const struct sockaddr *address, socklen_t len,
				int64 deadline, char *reason, int size)
{
	int			error = 0;
	socklen_t	error_len = sizeof(error);
	int			on = 1;

	if (!redis_link_spare() || !AcquireExternalFD())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("could not connect to Redis: too many open files"),
				 errhint("Raise max_files_per_process of this server.")));
	link->tls = NULL;
	link->fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (link->fd < 0)
	{
		snprintf(reason, size, "could not create a socket: %m");
		ReleaseExternalFD();
		return false;
	}
	if (address->sa_family != AF_UNIX)
		(void) setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));

	while (connect(link->fd, address, len) != 0)
	{
		if (errno == EINPROGRESS || errno == EINTR)
		{
			if (!wait_for(link, WL_SOCKET_CONNECTED, deadline,
						  wait_event_redis_connect_compat()))
				error = ETIMEDOUT;
			else if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &error_len) != 0)
				error = errno;
		}
		else if (errno == EAGAIN)
		{
			/* a unix socket whose queue is full */
			if (redis_clock() < deadline)
			{
				(void) wait_for(link, 0, Min(deadline, redis_clock() + BACKLOG_PAUSE),
								wait_event_redis_connect_compat());
				continue;
			}
			error = ETIMEDOUT;
		}
		else
			error = errno;
		break;
	}
	if (error == 0)
		return true;
	errno = error;
	snprintf(reason, size, "could not connect to Redis: %m");
	redis_link_close(link);
	return false;
}

static bool
connect_path(RedisLink *link, const char *path, int64 deadline, char *reason, int size)
{
	struct sockaddr_un address = {0};

	address.sun_family = AF_UNIX;
	strlcpy(address.sun_path, path, sizeof(address.sun_path));
	return connect_address(link, (struct sockaddr *) &address, sizeof(address),
						   deadline, reason, size);
}

/* Try every address of a name, in the order the resolver gives them. */
static bool
connect_host(RedisLink *link, const RedisEndpoint *endpoint, int64 deadline,
			 char *reason, int size)
{
	struct addrinfo hints = {0};
	struct addrinfo *list = NULL;
	struct sockaddr_storage addresses[8];
	socklen_t	lengths[lengthof(addresses)];
	int			count = 0;
	char		port[8];
	int			rc;

	hints.ai_socktype = SOCK_STREAM;
	hints.ai_flags = endpoint->hostaddr ? AI_NUMERICHOST : AI_ADDRCONFIG;
	snprintf(port, sizeof(port), "%d", endpoint->port);
	rc = getaddrinfo(endpoint->hostaddr ? endpoint->hostaddr : endpoint->host,
					 port, &hints, &list);
	if (rc != 0)
	{
		snprintf(reason, size, "could not look up the address of Redis: %s",
				 gai_strerror(rc));
		return false;
	}

	/* Copied, because a wait may end in an error. */
	for (struct addrinfo *one = list; one != NULL && count < lengthof(addresses);
		 one = one->ai_next)
	{
		memcpy(&addresses[count], one->ai_addr, one->ai_addrlen);
		lengths[count++] = one->ai_addrlen;
	}
	freeaddrinfo(list);

	for (int i = 0; i < count; i++)
		if (connect_address(link, (struct sockaddr *) &addresses[i], lengths[i],
							deadline, reason, size))
			return true;
	return false;
}

static void
raise_tls(const char *server, const char *problem)
{
	ereport(ERROR,
			(errcode(ERRCODE_LEASE_AUTHORITY_ERROR),
			 errmsg("could not establish TLS with Redis server \"%s\"", server),
			 errdetail("%s", problem)));
}

static bool
start_tls(RedisLink *link, const char *server, const RedisTlsParams *params,
		  int64 deadline, char *reason, int size)
{
	char		problem[200];

	link->tls = redis_tls_begin(link->fd, params, problem, sizeof(problem));
	if (link->tls == NULL)
	{
		redis_link_close(link);
		raise_tls(server, problem);
	}
	for (;;)
	{
		int			events = WL_SOCKET_READABLE;

		switch (redis_tls_handshake(link->tls))
		{
			case REDIS_TLS_DONE:
				return true;
			case REDIS_TLS_READ:
				break;
			case REDIS_TLS_WRITE:
				events = WL_SOCKET_WRITEABLE;
				break;
			case REDIS_TLS_CLOSED:
				snprintf(reason, size, "Redis closed the connection during the TLS handshake");
				redis_link_close(link);
				return false;
			case REDIS_TLS_FAILED:
				redis_tls_problem(link->tls, problem, sizeof(problem));
				redis_link_close(link);
				raise_tls(server, problem);
		}
		if (!wait_for(link, events, deadline, wait_event_redis_connect_compat()))
		{
			snprintf(reason, size, "Redis did not answer the TLS handshake in time");
			redis_link_close(link);
			return false;
		}
	}
}

/*
 * redis_link_open
 *
 * Connect, with TLS where the options ask for it. False with the reason in
 * words if that cannot be now. Raises LF005 if the other side's identity
 * cannot be verified, 0A000 if the build has no TLS, 53000 if this backend has
 * too many files open.
 */
bool
redis_link_open(RedisLink *link, const char *server, const RedisEndpoint *endpoint,
				const RedisOptions *options, int64 deadline, char *reason, int size)
{
	RedisSslMode sslmode = redis_option_ssl(options, endpoint);
	RedisTlsParams params = {0};

	if (sslmode != REDIS_SSL_DISABLE && !redis_tls_supported())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("TLS to Redis server \"%s\" is not supported by this build", server),
				 errhint("Build lockfence where pkg-config finds OpenSSL, or set option \"sslmode\" of the server to \"disable\" if its network is trusted.")));

	if (endpoint->path != NULL ?
		!connect_path(link, endpoint->path, deadline, reason, size) :
		!connect_host(link, endpoint, deadline, reason, size))
		return false;
	if (sslmode == REDIS_SSL_DISABLE)
		return true;

	params.name = options->ssl_server_name ? options->ssl_server_name :
		endpoint->host ? endpoint->host : endpoint->hostaddr;
	params.verify_name = sslmode == REDIS_SSL_VERIFY_FULL;
	params.rootcert = options->sslrootcert;
	params.cert = options->sslcert;
	params.key = options->sslkey;
	return start_tls(link, server, &params, deadline, reason, size);
}

static RedisTlsResult
send_plain(int fd, const char *data, int len, int *sent)
{
	ssize_t		done = send(fd, data, len, MSG_NOSIGNAL);

	*sent = (int) Max(done, 0);
	if (done > 0)
		return REDIS_TLS_DONE;
	return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ?
		REDIS_TLS_WRITE : REDIS_TLS_CLOSED;
}

static RedisTlsResult
receive_plain(int fd, char *data, int size, int *received)
{
	ssize_t		done = recv(fd, data, size, 0);

	*received = (int) Max(done, 0);
	if (done > 0)
		return REDIS_TLS_DONE;
	return done < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) ?
		REDIS_TLS_READ : REDIS_TLS_CLOSED;
}

/* Wait for what a read or write needs; anything but OK ends it. */
static RedisStream
wait_result(RedisLink *link, RedisTlsResult result, int64 deadline)
{
	int			events = WL_SOCKET_READABLE;

	if (result == REDIS_TLS_CLOSED || result == REDIS_TLS_FAILED)
		return REDIS_STREAM_CLOSED;
	if (result == REDIS_TLS_WRITE)
		events = WL_SOCKET_WRITEABLE;
	return wait_for(link, events, deadline, wait_event_redis_reply_compat()) ?
		REDIS_STREAM_OK : REDIS_STREAM_LATE;
}

/* redis_link_send: all of it; *sent says how much may have arrived */
RedisStream
redis_link_send(RedisLink *link, const char *data, int len, int64 deadline, int *sent)
{
	*sent = 0;
	while (*sent < len)
	{
		int			now = 0;
		RedisTlsResult result = link->tls != NULL ?
			redis_tls_send(link->tls, data + *sent, len - *sent, &now) :
			send_plain(link->fd, data + *sent, len - *sent, &now);
		RedisStream stream;

		*sent += now;
		if (result == REDIS_TLS_DONE)
			continue;
		stream = wait_result(link, result, deadline);
		if (stream != REDIS_STREAM_OK)
			return stream;
	}
	return REDIS_STREAM_OK;
}

/*
 * redis_link_receive
 *
 * At least one byte. A Redis that is near answers sooner than this process
 * could be put to sleep and woken, so look a few times before sleeping.
 */
RedisStream
redis_link_receive(RedisLink *link, char *data, int size, int64 deadline, int *received)
{
	int64		spin_until = redis_clock() + SPIN;

	for (;;)
	{
		/* Read first: TLS may have bytes that the socket does not show. */
		RedisTlsResult result = link->tls != NULL ?
			redis_tls_receive(link->tls, data, size, received) :
			receive_plain(link->fd, data, size, received);
		RedisStream stream;

		if (result == REDIS_TLS_DONE)
			return REDIS_STREAM_OK;
		if (result == REDIS_TLS_READ && redis_clock() < spin_until)
			continue;
		stream = wait_result(link, result, deadline);
		if (stream != REDIS_STREAM_OK)
			return stream;
	}
}

/*
 * redis_link_quiet
 *
 * Is an idle link still open, with nothing said by the other side? Costs no
 * round trip. Anything that arrived unasked makes the link useless.
 */
bool
redis_link_quiet(RedisLink *link)
{
	char		byte;
	int			received;

	if (link->tls != NULL)
		return redis_tls_receive(link->tls, &byte, 1, &received) == REDIS_TLS_READ;
	return recv(link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
		(errno == EAGAIN || errno == EWOULDBLOCK);
}
