// SPDX-License-Identifier: GPL-2.0
/* Linux driver of the longshore NIC: finding records of kernel TLS that the device has lost. */

#include <linux/tcp.h>

#include "nic.h"
#include "tls_context.h"

/* The kernel notes record headers in so many bytes behind the position that it was given. */
#define LONGSHORE_TLS_NOTED	U16_MAX

/* Has the kernel note the headers from @seq on: the device may ask about one of them. */
static void longshore_tls_note(struct longshore_tls *tls, u32 seq)
{
	tls->stage = LONGSHORE_TLS_NOTES;
	tls->position = seq;
	/* What was noted of another position goes first. */
	atomic64_set(&tls->async.req, 0);
	WRITE_ONCE(tls->async.loglen, 0);
	WRITE_ONCE(tls->async.rcd_delta, 0);
	atomic64_set_release(&tls->async.req, ((u64)seq << 32) | ((u64)LONGSHORE_TLS_NOTED << 16) |
			     RESYNC_REQ | RESYNC_REQ_ASYNC);
}

/* The kernel need not note anything, nor look for a record. */
static void longshore_tls_rest(struct longshore_tls *tls)
{
	tls->owes = false;
	tls->question++;
	tls->stage = LONGSHORE_TLS_IDLE;
	atomic64_set(&tls->async.req, 0);
}

/* Whether what is noted or asked about is of no use any more, now that a packet has come. */
static bool longshore_tls_is_past(const struct longshore_tls *tls, u32 seq, bool decrypted)
{
	switch (tls->stage) {
	case LONGSHORE_TLS_NOTES:
		return after(seq, tls->position + LONGSHORE_TLS_NOTED / 2);
	case LONGSHORE_TLS_ASKS:
		/* The device goes on by itself. */
		if (decrypted)
			return after(seq, tls->position);
		/* The kernel has passed the position, and looked at what it has noted, if any. */
		return after(READ_ONCE(tcp_sk(tls->sk)->copied_seq), tls->position) &&
		       !READ_ONCE(tls->async.rcd_delta);
	default:
		return !decrypted;
	}
}

/**
 * longshore_tls_received() - takes notice of a packet of a connection that the device decrypts
 * @queue: the packet's
 * @id: the context
 * @seq: where it begins
 * @decrypted: the device has decrypted it
 */
void longshore_tls_received(struct longshore_queue *queue, u32 id, u32 seq, bool decrypted)
{
	struct longshore_tls *tls;

	rcu_read_lock();
	tls = xa_load(&queue->nic->tls, id);
	if (tls && !(decrypted && READ_ONCE(tls->stage) == LONGSHORE_TLS_IDLE)) {
		spin_lock(&tls->lock);
		if (tls->sk && longshore_tls_is_past(tls, seq, decrypted)) {
			if (decrypted) {
				longshore_tls_rest(tls);
			} else {
				longshore_tls_note(tls, seq);
				longshore_count(&queue->rx_stats.sync,
						&queue->rx_stats.tls_resync_req_start);
			}
		}
		spin_unlock(&tls->lock);
	}
	rcu_read_unlock();
}

/* The device thinks that a record begins at a position: the kernel tells when it has come there. */
void longshore_tls_resync(struct longshore_queue *queue,
			  const struct longshore_resync_request *request)
{
	struct longshore_tls *tls;

	longshore_count(&queue->rx_stats.sync, &queue->rx_stats.tls_resync_req_pkt);
	rcu_read_lock();
	tls = xa_load(&queue->nic->tls, request->context);
	if (tls) {
		spin_lock(&tls->lock);
		if (tls->sk) {
			/* It has given up what it asked before. */
			tls->owes = false;
			tls->question++;
			tls->stage = LONGSHORE_TLS_ASKS;
			tls->position = request->tcpsn;
			atomic64_set(&tls->async.req, ((u64)tls->position << 32) | RESYNC_REQ);
		}
		spin_unlock(&tls->lock);
	}
	rcu_read_unlock();
}

/* The device has no context any more: it asks nothing. */
void longshore_tls_stop_search(struct longshore_tls *tls)
{
	spin_lock_bh(&tls->lock);
	longshore_tls_rest(tls);
	spin_unlock_bh(&tls->lock);
}

/* Tells the device that a record begins where it has asked. False if that waits for room. */
static bool longshore_tls_confirm(struct longshore_nic *nic, struct longshore_tls *tls,
				  u32 question, u32 seq, u64 number)
{
	struct longshore_resync_response response = {
		.head.opcode = LONGSHORE_OPCODE_RESYNC_RESPONSE,
		.head.flags = LONGSHORE_RESYNC_RESPONSE_CONFIRMED,
		.context = tls->id,
		.tcpsn = seq,
		.index = number,
	};

	if (tls->epoch != READ_ONCE(nic->epoch))
		return true;
	switch (longshore_post(nic, &response, sizeof(response))) {
	case 0:
		atomic64_inc(&nic->tls_resync_res_ok);
		return true;
	case -EBUSY:
		atomic64_inc(&nic->tls_resync_res_retry);
		spin_lock_bh(&tls->lock);
		/* Of a question that has come meanwhile it is no answer. */
		if (tls->sk && tls->question == question) {
			tls->owes = true;
			tls->owed.seq = seq;
			tls->owed.number = number;
		}
		spin_unlock_bh(&tls->lock);
		/* What is kept is there before NAPI looks for it. */
		smp_store_release(&nic->tls_owes, true);
		return false;
	default:
		return true;
	}
}

/* A record begins where the device has asked; the kernel knows its number. */
int longshore_tls_answer(struct net_device *netdev, struct sock *sk, u32 seq, u8 *number,
			 enum tls_offload_ctx_dir direction)
{
	struct longshore_tls *tls = longshore_tls_state(tls_get_ctx(sk), direction)->tls;
	struct longshore_nic *nic = netdev_priv(netdev);
	u32 question;

	if (direction != TLS_OFFLOAD_CTX_DIR_RX)
		return -EOPNOTSUPP;
	spin_lock_bh(&tls->lock);
	tls->stage = LONGSHORE_TLS_IDLE;
	question = tls->question;
	spin_unlock_bh(&tls->lock);
	if (!longshore_tls_confirm(nic, tls, question, seq, get_unaligned_be64(number))) {
		/* The ring may have been cleaned up in between. */
		local_bh_disable();
		napi_schedule(&nic->queues[0].napi);
		local_bh_enable();
	}
	return 0;
}

/* The ring has room again: the device gets the answers that found none. */
void longshore_tls_answer_owed(struct longshore_nic *nic)
{
	struct longshore_tls *tls;
	unsigned long id;

	WRITE_ONCE(nic->tls_owes, false);
	/* An answer that is kept from here on sets it again. */
	smp_mb();
	rcu_read_lock();
	xa_for_each(&nic->tls, id, tls) {
		u32 question, seq;
		u64 number;
		bool owes;

		spin_lock_bh(&tls->lock);
		owes = tls->owes;
		question = tls->question;
		seq = tls->owed.seq;
		number = tls->owed.number;
		tls->owes = false;
		spin_unlock_bh(&tls->lock);
		/* Those behind one that finds no room find none either. */
		if (owes && !longshore_tls_confirm(nic, tls, question, seq, number))
			break;
	}
	rcu_read_unlock();
}
