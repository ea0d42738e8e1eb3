/* SPDX-License-Identifier: GPL-2.0 */
/* Linux driver of the longshore NIC: what older kernels lack; Kbuild looks what is there. */
#ifndef LONGSHORE_COMPAT_H
#define LONGSHORE_COMPAT_H

#include <linux/ethtool.h>
#include <linux/pci.h>
#include <linux/skbuff.h>
#include <net/tls.h>

#ifndef LONGSHORE_PCIM_REQUEST_ALL_REGIONS
/* They are given back by themselves too: the function is enabled by pcim_enable_device(). */
static inline int pcim_request_all_regions(struct pci_dev *pdev, const char *name)
{
	return pci_request_regions(pdev, name);
}
#endif

#ifndef LONGSHORE_TLS_IS_SKB_TX
static inline bool tls_is_skb_tx_device_offloaded(const struct sk_buff *skb)
{
	return skb->sk && tls_is_sk_tx_device_offloaded(skb->sk);
}
#endif

#ifndef LONGSHORE_SKB_IS_DECRYPTED
static inline bool skb_is_decrypted(const struct sk_buff *skb)
{
#ifdef CONFIG_TLS_DEVICE
	return skb->decrypted;
#else
	return false;
#endif
}
#endif

#ifndef LONGSHORE_ETHTOOL_PUTS
static inline void ethtool_puts(u8 **data, const char *name)
{
	strscpy(*data, name, ETH_GSTRING_LEN);
	*data += ETH_GSTRING_LEN;
}
#endif

#ifndef LONGSHORE_RXFH_PARAM
/* Parts of it are parameters of functions. */
struct ethtool_rxfh_param {
	u8 hfunc;
	u32 *indir;
	u8 *key;
};
#endif

#ifndef LONGSHORE_RXFH_FIELDS
/* They are in struct ethtool_rxnfc, which is asked for much else too. */
struct ethtool_rxfh_fields {
	u32 data;
	u32 flow_type;
};
#endif

#endif
