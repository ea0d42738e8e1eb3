/* SPDX-License-Identifier: GPL-2.0 */
/* Linux driver of the longshore NIC: connections of kernel TLS. */
#ifndef LONGSHORE_TLS_CONTEXT_H
#define LONGSHORE_TLS_CONTEXT_H

#include <linux/spinlock.h>
#include <net/tls.h>

/* What the kernel does for a device that has lost the records of a connection. */
enum longshore_tls_stage {
	LONGSHORE_TLS_IDLE,	/* Nothing. */
	LONGSHORE_TLS_NOTES,	/* It notes where headers are. */
	LONGSHORE_TLS_ASKS,	/* It is asked about one. */
};

/**
 * struct longshore_tls - one direction of a connection, whose records the device transforms
 * @id: the device's context
 * @epoch: the function's, when the context was made: it is gone if that is another now
 * @next: transmit: the sequence number that the context is at, as far as the driver knows
 * @lost: transmit: the device has refused something of the context
 * @useless: transmit: the flow's packets are not what the context is for, as behind NAT
 * @left: the connection has ended, but the device may have the context until the next reset
 * @lock: receive: of what follows
 * @sk: receive: the socket, as long as there is one
 * @stage: receive: what the kernel does to find a record again
 * @position: receive: from where on it notes headers, or which one it is asked about
 * @async: receive: the kernel's part of that
 * @question: receive: counts what the device has asked, and what it no longer asks
 * @owed: receive: an answer that found no room on the ring; its position, and the record's number
 * @owes: receive: there is one
 * @rcu: for readers that look it up by its id
 */
struct longshore_tls {
	u32 id;
	u32 epoch;
	u32 next;
	bool lost;
	bool useless;
	bool left;
	spinlock_t lock; /* of what follows */
	struct sock *sk;
	enum longshore_tls_stage stage;
	u32 position;
	struct tls_offload_resync_async async;
	u32 question;
	struct {
		u32 seq;
		u64 number;
	} owed;
	bool owes;
	struct rcu_head rcu;
};

/* What TLS in the kernel keeps for the driver of a connection. */
struct longshore_tls_state {
	struct longshore_tls *tls;
};

int longshore_tls_answer(struct net_device *netdev, struct sock *sk, u32 seq, u8 *number,
			 enum tls_offload_ctx_dir direction);
void longshore_tls_stop_search(struct longshore_tls *tls);

static inline struct longshore_tls_state *
longshore_tls_state(struct tls_context *context, enum tls_offload_ctx_dir direction)
{
	BUILD_BUG_ON(sizeof(struct longshore_tls_state) > TLS_DRIVER_STATE_SIZE_TX);
	BUILD_BUG_ON(sizeof(struct longshore_tls_state) > TLS_DRIVER_STATE_SIZE_RX);
	return __tls_driver_ctx(context, direction);
}

#endif
