// SPDX-License-Identifier: GPL-2.0
/* Linux driver of the longshore NIC: how received packets are spread over the queues. */

#include <linux/ethtool.h>

#include "nic.h"

#define LONGSHORE_RSS_ENTRIES	ARRAY_SIZE(((struct longshore_rss_settings *)NULL)->table)
#define LONGSHORE_RSS_KEY_BYTES	sizeof_field(struct longshore_rss_settings, key)

#define LONGSHORE_RXH_ADDRESSES	(RXH_IP_SRC | RXH_IP_DST)
#define LONGSHORE_RXH_PORTS	(RXH_L4_B_0_1 | RXH_L4_B_2_3)

#define LONGSHORE_ALL_HASH_TYPES \
	(LONGSHORE_HASH_TYPE_IPV4 | LONGSHORE_HASH_TYPE_TCP_IPV4 | LONGSHORE_HASH_TYPE_UDP_IPV4 | \
	 LONGSHORE_HASH_TYPE_IPV6 | LONGSHORE_HASH_TYPE_TCP_IPV6 | LONGSHORE_HASH_TYPE_UDP_IPV6)

static_assert(LONGSHORE_RSS_ENTRIES >= 4 * LONGSHORE_MAX_QUEUES);

static bool longshore_has_rss(const struct longshore_nic *nic)
{
	return nic->limits.features & LONGSHORE_FEATURE_RSS;
}

/* Spreads evenly over all queues, unless the user has set something else. */
void longshore_rss_spread(struct longshore_nic *nic)
{
	u32 at;

	if (netif_is_rxfh_configured(nic->netdev))
		return;
	for (at = 0; at < LONGSHORE_RSS_ENTRIES; at++)
		nic->rss.table[at] = ethtool_rxfh_indir_default(at, nic->queue_count);
}

/* The key is the system's own, as of other drivers. */
int longshore_rss_init(struct longshore_nic *nic)
{
	if (!longshore_has_rss(nic))
		return 0;
	nic->rss_memory = dmam_alloc_coherent(&nic->pdev->dev, sizeof(*nic->rss_memory),
					      &nic->rss_dma, GFP_KERNEL);
	if (!nic->rss_memory)
		return -ENOMEM;
	nic->rss.types = LONGSHORE_ALL_HASH_TYPES;
	netdev_rss_key_fill(nic->rss.key, sizeof(nic->rss.key));
	longshore_rss_spread(nic);
	return 0;
}

/* The command that has the device spread as is set. One of before may find this in the memory. */
static struct longshore_set_rss longshore_rss_command(struct longshore_nic *nic)
{
	*nic->rss_memory = nic->rss;
	return (struct longshore_set_rss){
		.head = { .opcode = LONGSHORE_OPCODE_SET_RSS, .slices = 1 },
		.slices[0] = {
			.offset = nic->rss_dma,
			.len = sizeof(*nic->rss_memory),
			.region = LONGSHORE_REGION,
		},
	};
}

/*
 * A function that was set up spreads as the device likes, until it is told. That is not waited for:
 * a device that does not answer holds nothing up. With the RTNL lock.
 */
int longshore_rss_restore(struct longshore_nic *nic)
{
	struct longshore_set_rss slot;

	if (!longshore_has_rss(nic))
		return 0;
	slot = longshore_rss_command(nic);
	return longshore_post(nic, &slot, sizeof(slot));
}

static int longshore_rss_apply(struct longshore_nic *nic)
{
	struct longshore_set_rss slot = longshore_rss_command(nic);
	u32 epoch;

	return longshore_command(nic, &slot, sizeof(slot), &epoch);
}

/*
 * A function that is down is told when it is set up. One that does not answer is set up anew, with
 * the settings of before.
 */
static int longshore_rss_change(struct longshore_nic *nic, const struct longshore_rss_settings *to)
{
	struct longshore_rss_settings before = nic->rss;
	int error;

	nic->rss = *to;
	error = nic->up ? longshore_rss_apply(nic) : 0;
	if (error) {
		nic->rss = before;
		*nic->rss_memory = before;
	}
	return error;
}

u32 longshore_get_rxfh_key_size(struct net_device *netdev)
{
	return longshore_has_rss(netdev_priv(netdev)) ? LONGSHORE_RSS_KEY_BYTES : 0;
}

u32 longshore_get_rxfh_indir_size(struct net_device *netdev)
{
	return longshore_has_rss(netdev_priv(netdev)) ? LONGSHORE_RSS_ENTRIES : 0;
}

#ifdef LONGSHORE_RXFH_PARAM
#define LONGSHORE_PARAM
#else
#define LONGSHORE_PARAM		static
#endif

/* What the device was told last, or is going to be told. Any user may ask: the device is not. */
LONGSHORE_PARAM int longshore_get_rxfh(struct net_device *netdev, struct ethtool_rxfh_param *rxfh)
{
	struct longshore_nic *nic = netdev_priv(netdev);
	const struct longshore_rss_settings *settings = &nic->rss;
	u32 at;

	if (!longshore_has_rss(nic))
		return -EOPNOTSUPP;
	rxfh->hfunc = ETH_RSS_HASH_TOP;
	if (rxfh->key)
		memcpy(rxfh->key, settings->key, sizeof(settings->key));
	for (at = 0; rxfh->indir && at < LONGSHORE_RSS_ENTRIES; at++)
		rxfh->indir[at] = settings->table[at];
	return 0;
}

LONGSHORE_PARAM int longshore_set_rxfh(struct net_device *netdev, struct ethtool_rxfh_param *rxfh,
				       struct netlink_ext_ack *extack)
{
	struct longshore_nic *nic = netdev_priv(netdev);
	struct longshore_rss_settings settings = nic->rss;
	u32 at;

	if (!longshore_has_rss(nic))
		return -EOPNOTSUPP;
	if (rxfh->hfunc != ETH_RSS_HASH_NO_CHANGE && rxfh->hfunc != ETH_RSS_HASH_TOP) {
		NL_SET_ERR_MSG(extack, "the hash is Toeplitz's");
		return -EOPNOTSUPP;
	}
	if (rxfh->key)
		memcpy(settings.key, rxfh->key, sizeof(settings.key));
	for (at = 0; rxfh->indir && at < LONGSHORE_RSS_ENTRIES; at++)
		settings.table[at] = rxfh->indir[at];
	return longshore_rss_change(nic, &settings);
}

#ifndef LONGSHORE_RXFH_PARAM
int longshore_get_rxfh_parts(struct net_device *netdev, u32 *indir, u8 *key, u8 *hfunc)
{
	struct ethtool_rxfh_param rxfh = { .indir = indir, .key = key };
	int error = longshore_get_rxfh(netdev, &rxfh);

	if (!error && hfunc)
		*hfunc = rxfh.hfunc;
	return error;
}

int longshore_set_rxfh_parts(struct net_device *netdev, const u32 *indir, const u8 *key,
			     const u8 hfunc)
{
	struct ethtool_rxfh_param rxfh = {
		.hfunc = hfunc,
		.indir = (u32 *)indir,
		.key = (u8 *)key,
	};

	return longshore_set_rxfh(netdev, &rxfh, NULL);
}
#endif

/* Which type of hash covers the ports of this kind of flow; 0 if only addresses are hashed. */
static int longshore_type_with_ports(u32 flow_type, u32 *type)
{
	switch (flow_type) {
	case TCP_V4_FLOW:
		*type = LONGSHORE_HASH_TYPE_TCP_IPV4;
		return 0;
	case UDP_V4_FLOW:
		*type = LONGSHORE_HASH_TYPE_UDP_IPV4;
		return 0;
	case TCP_V6_FLOW:
		*type = LONGSHORE_HASH_TYPE_TCP_IPV6;
		return 0;
	case UDP_V6_FLOW:
		*type = LONGSHORE_HASH_TYPE_UDP_IPV6;
		return 0;
	case IPV4_FLOW:
	case IPV6_FLOW:
	case SCTP_V4_FLOW:
	case SCTP_V6_FLOW:
	case AH_ESP_V4_FLOW:
	case AH_ESP_V6_FLOW:
	case AH_V4_FLOW:
	case AH_V6_FLOW:
	case ESP_V4_FLOW:
	case ESP_V6_FLOW:
		*type = 0;
		return 0;
	default:
		/* What is not of IP is not hashed. */
		return -EOPNOTSUPP;
	}
}

#ifdef LONGSHORE_RXFH_FIELDS
#define LONGSHORE_FIELDS
#else
#define LONGSHORE_FIELDS	static
#endif

LONGSHORE_FIELDS int longshore_get_rxfh_fields(struct net_device *netdev,
					       struct ethtool_rxfh_fields *fields)
{
	struct longshore_nic *nic = netdev_priv(netdev);
	u32 type;

	if (!longshore_has_rss(nic) || longshore_type_with_ports(fields->flow_type, &type))
		return -EOPNOTSUPP;
	fields->data = LONGSHORE_RXH_ADDRESSES;
	if (nic->rss.types & type)
		fields->data |= LONGSHORE_RXH_PORTS;
	return 0;
}

LONGSHORE_FIELDS int longshore_set_rxfh_fields(struct net_device *netdev,
					       const struct ethtool_rxfh_fields *fields,
					       struct netlink_ext_ack *extack)
{
	struct longshore_nic *nic = netdev_priv(netdev);
	struct longshore_rss_settings settings = nic->rss;
	u32 type;

	if (!longshore_has_rss(nic) || longshore_type_with_ports(fields->flow_type, &type))
		return -EOPNOTSUPP;
	if (fields->data == (LONGSHORE_RXH_ADDRESSES | LONGSHORE_RXH_PORTS) && type) {
		settings.types |= type;
	} else if (fields->data == LONGSHORE_RXH_ADDRESSES) {
		settings.types &= ~type;
	} else {
		NL_SET_ERR_MSG(extack, "hashed are both addresses, of TCP and UDP both ports too");
		return -EOPNOTSUPP;
	}
	return longshore_rss_change(nic, &settings);
}

#ifndef LONGSHORE_RXFH_FIELDS
int longshore_set_rxnfc(struct net_device *netdev, struct ethtool_rxnfc *info)
{
	struct ethtool_rxfh_fields fields = { .data = info->data, .flow_type = info->flow_type };

	if (info->cmd != ETHTOOL_SRXFH)
		return -EOPNOTSUPP;
	return longshore_set_rxfh_fields(netdev, &fields, NULL);
}
#endif

#ifdef LONGSHORE_RX_RING_COUNT
u32 longshore_get_rx_ring_count(struct net_device *netdev)
{
	struct longshore_nic *nic = netdev_priv(netdev);

	return nic->queue_count;
}
#else
int longshore_get_rxnfc(struct net_device *netdev, struct ethtool_rxnfc *info, u32 *rules)
{
	struct ethtool_rxfh_fields fields = { .flow_type = info->flow_type };
	struct longshore_nic *nic = netdev_priv(netdev);
	int error = 0;

	switch (info->cmd) {
	case ETHTOOL_GRXRINGS:
		info->data = nic->queue_count;
		break;
	case ETHTOOL_GRXFH:
		error = longshore_get_rxfh_fields(netdev, &fields);
		info->data = fields.data;
		break;
	default:
		error = -EOPNOTSUPP;
	}
	return error;
}
#endif
