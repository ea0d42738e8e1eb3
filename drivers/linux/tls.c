// SPDX-License-Identifier: GPL-2.0
/* Linux driver of the longshore NIC: contexts of kernel TLS, and what is asked for them. */

#include <linux/tcp.h>

#include "nic.h"
#include "tls_context.h"

#define LONGSHORE_PROTOCOL_TLS	1

/* Parameters of TLS, as docs/device.md has them. */
struct longshore_tls_parameters {
	u8 version;
	u8 cipher;
	u8 reserved0[6];
	u64 record;
	u8 iv[12];
	u8 key[32];
	u8 reserved1[4];
};

static_assert(sizeof(struct longshore_tls_parameters) == 64);

/* Salt and nonce are the IV of 12 bytes. The kernel's structs of TLS 1.2 are those of 1.3 too. */
static void longshore_tls_put_key(struct longshore_tls_parameters *parameters, u8 cipher,
				  const u8 *salt, u32 salt_len, const u8 *iv, const u8 *key,
				  u32 key_len, const u8 *record)
{
	parameters->cipher = cipher;
	parameters->record = get_unaligned_be64(record);
	memcpy(parameters->iv, salt, salt_len);
	memcpy(parameters->iv + salt_len, iv, sizeof(parameters->iv) - salt_len);
	memcpy(parameters->key, key, key_len);
}

static int longshore_tls_put_parameters(struct longshore_tls_parameters *parameters,
					const struct tls_crypto_info *info)
{
	const struct tls12_crypto_info_chacha20_poly1305 *chacha = (const void *)info;
	const struct tls12_crypto_info_aes_gcm_128 *gcm128 = (const void *)info;
	const struct tls12_crypto_info_aes_gcm_256 *gcm256 = (const void *)info;

	switch (info->version) {
	case TLS_1_2_VERSION:
		parameters->version = 12;
		break;
	case TLS_1_3_VERSION:
		parameters->version = 13;
		break;
	default:
		return -EOPNOTSUPP;
	}
	switch (info->cipher_type) {
	case TLS_CIPHER_AES_GCM_128:
		longshore_tls_put_key(parameters, 1, gcm128->salt, sizeof(gcm128->salt),
				      gcm128->iv, gcm128->key, sizeof(gcm128->key),
				      gcm128->rec_seq);
		return 0;
	case TLS_CIPHER_AES_GCM_256:
		longshore_tls_put_key(parameters, 2, gcm256->salt, sizeof(gcm256->salt),
				      gcm256->iv, gcm256->key, sizeof(gcm256->key),
				      gcm256->rec_seq);
		return 0;
	case TLS_CIPHER_CHACHA20_POLY1305:
		longshore_tls_put_key(parameters, 3, chacha->salt, sizeof(chacha->salt),
				      chacha->iv, chacha->key, sizeof(chacha->key),
				      chacha->rec_seq);
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

static int longshore_tls_create(struct longshore_nic *nic, struct longshore_tls *tls,
				struct sock *sk, bool receive, struct tls_crypto_info *info)
{
	struct longshore_create_context create = {
		.head.opcode = LONGSHORE_OPCODE_CREATE_CONTEXT,
		.context = tls->id,
		.tcpsn = tls->next,
		.protocols = { LONGSHORE_PROTOCOL_TLS },
	};
	int error;

	error = longshore_tls_put_parameters((void *)create.parameters, info);
	if (error)
		return error;
	if (receive)
		create.head.flags |= LONGSHORE_CREATE_CONTEXT_RECEIVE;
	longshore_put_flow(&create, sk, receive);
	error = longshore_command(nic, &create, sizeof(create), &tls->epoch);
	memzero_explicit(&create, sizeof(create));
	return error;
}

/* The socket may go from now on. */
static void longshore_tls_forget_socket(struct longshore_tls *tls)
{
	spin_lock_bh(&tls->lock);
	tls->sk = NULL;
	tls->owes = false;
	spin_unlock_bh(&tls->lock);
}

/* Ends a connection. An id that the device may have is nobody else's until the next reset. */
static void longshore_tls_release(struct longshore_nic *nic, struct longshore_tls *tls, bool gone)
{
	xa_lock(&nic->tls);
	if (!gone && READ_ONCE(nic->up) && tls->epoch == READ_ONCE(nic->epoch)) {
		tls->left = true;
	} else {
		__xa_erase(&nic->tls, tls->id);
		kfree_rcu(tls, rcu);
	}
	xa_unlock(&nic->tls);
}

/* The device has no contexts any more: it was reset, and @nic is not up. */
void longshore_tls_reset(struct longshore_nic *nic)
{
	struct longshore_tls *tls;
	unsigned long id;

	xa_lock(&nic->tls);
	xa_for_each(&nic->tls, id, tls) {
		if (tls->left) {
			__xa_erase(&nic->tls, id);
			kfree_rcu(tls, rcu);
		} else {
			longshore_tls_stop_search(tls);
		}
	}
	xa_unlock(&nic->tls);
}

static int longshore_tls_add(struct net_device *netdev, struct sock *sk,
			     enum tls_offload_ctx_dir direction, struct tls_crypto_info *info,
			     u32 start)
{
	bool receive = direction == TLS_OFFLOAD_CTX_DIR_RX;
	struct longshore_tls new = { .next = start, .sk = receive ? sk : NULL };
	struct longshore_nic *nic = netdev_priv(netdev);
	struct longshore_tls *tls;
	int error;

	tls = kmemdup(&new, sizeof(new), GFP_KERNEL);
	if (!tls)
		return -ENOMEM;
	spin_lock_init(&tls->lock);
	error = xa_alloc(&nic->tls, &tls->id, tls, XA_LIMIT(0, nic->contexts - 1),
			 GFP_KERNEL);
	if (error) {
		kfree(tls);
		return error;
	}
	error = longshore_tls_create(nic, tls, sk, receive, info);
	if (error) {
		longshore_tls_forget_socket(tls);
		/* What was refused, or not put on the ring, is not there. */
		longshore_tls_release(nic, tls, error != -ETIMEDOUT);
		return error;
	}
	atomic64_inc(receive ? &nic->tls_rx_contexts : &nic->tls_tx_contexts);
	longshore_tls_state(tls_get_ctx(sk), direction)->tls = tls;
	if (receive) {
		tls_offload_ctx_rx(tls_get_ctx(sk))->resync_async = &tls->async;
		tls_offload_rx_resync_set_type(sk, TLS_OFFLOAD_SYNC_TYPE_DRIVER_REQ_ASYNC);
	}
	return 0;
}

/* Has the device destroy the context. Whether it has it no longer. */
static bool longshore_tls_destroy(struct longshore_nic *nic, const struct longshore_tls *tls)
{
	struct longshore_destroy_context destroy = {
		.head.opcode = LONGSHORE_OPCODE_DESTROY_CONTEXT,
		.context = tls->id,
	};
	u32 epoch;

	/* A function that was set up anew has no contexts of before. */
	if (tls->epoch != READ_ONCE(nic->epoch))
		return true;
	switch (longshore_command(nic, &destroy, sizeof(destroy), &epoch)) {
	case 0:
	case -ENETDOWN:
	case -EIO: /* There is none to destroy. */
		return true;
	default:
		return false;
	}
}

static void longshore_tls_del(struct net_device *netdev, struct tls_context *context,
			      enum tls_offload_ctx_dir direction)
{
	struct longshore_tls *tls = longshore_tls_state(context, direction)->tls;
	struct longshore_nic *nic = netdev_priv(netdev);
	bool drained = true;

	longshore_tls_forget_socket(tls);
	/*
	 * A socket that gets its next key is still there, and so may be packets of it. They are for
	 * this context: the next one of the same id would use numbers of records twice.
	 */
	if (direction == TLS_OFFLOAD_CTX_DIR_TX && refcount_read(&context->refcount))
		drained = longshore_tx_drain(nic);
	longshore_tls_release(nic, tls, longshore_tls_destroy(nic, tls) && drained);
}

static const struct tlsdev_ops longshore_tlsdev_ops = {
	.tls_dev_add	= longshore_tls_add,
	.tls_dev_del	= longshore_tls_del,
	.tls_dev_resync	= longshore_tls_answer,
};

/*
 * The device has refused something of a context: it may be anywhere. A flow that is another on the
 * wire than the socket's, as behind NAT of this host or with a tag of tc-vlan, stays one.
 */
void longshore_tls_refused(struct longshore_nic *nic, u32 id, u8 error)
{
	struct longshore_tls *tls;

	rcu_read_lock();
	tls = xa_load(&nic->tls, id);
	if (tls && (error == LONGSHORE_ERROR_WRONG_FLOW || error == LONGSHORE_ERROR_BAD_HEADER))
		WRITE_ONCE(tls->useless, true);
	if (tls)
		WRITE_ONCE(tls->lost, true);
	rcu_read_unlock();
}

void longshore_tls_init(struct longshore_nic *nic)
{
	xa_init_flags(&nic->tls, XA_FLAGS_ALLOC);
	if (!(nic->limits.features & LONGSHORE_FEATURE_CONTEXTS) ||
	    !(nic->limits.protocols & BIT(LONGSHORE_PROTOCOL_TLS)))
		return;
	nic->contexts = nic->limits.contexts;
	nic->netdev->tlsdev_ops = &longshore_tlsdev_ops;
	/* It says by which device a packet has come: see longshore_tls_xmit(). */
	netif_keep_dst(nic->netdev);
	nic->netdev->hw_features |= NETIF_F_HW_TLS_TX | NETIF_F_HW_TLS_RX;
	nic->netdev->features |= NETIF_F_HW_TLS_TX | NETIF_F_HW_TLS_RX;
}
