/*
 * Wrappers of what Rust cannot call: DPDK's static inline functions and macros, and functions with large
 * structures as arguments. src/lib.rs declares the functions of this file, and the functions of DPDK that
 * need no wrapper.
 */

#include <string.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_prefetch.h>
#include <rte_version.h>

#if RTE_VER_YEAR != 22 || RTE_VER_MONTH != 11
#error "dpdk-sys is written for DPDK 22.11.x"
#endif

/* Assumptions of src/lib.rs. */
_Static_assert(sizeof(int) == 4, "int is c_int of 32 bits");
_Static_assert(sizeof(struct rte_ether_addr) == 6, "an address is six bytes");
_Static_assert(sizeof(uint16_t) == sizeof(((struct rte_mbuf *)0)->data_len), "lengths are u16");
_Static_assert(sizeof(uint16_t) == sizeof(((struct rte_mbuf *)0)->data_off), "offsets are u16");
_Static_assert(sizeof(uint16_t) == sizeof(((struct rte_mbuf *)0)->buf_len), "lengths are u16");
_Static_assert(RTE_MAX_QUEUES_PER_PORT <= UINT16_MAX, "queues are numbered in u16");
_Static_assert(RTE_ETH_NAME_MAX_LEN == 64, "PORT_NAME_LEN");

#define TX_CHECKSUMS (RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM)
#define RX_CHECKSUMS (RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM)
#define FLOWS (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP)

struct psp_dpdk_port_info {
	uint16_t rx_queues_max;
	uint16_t tx_queues_max;
	uint16_t mtu;
	uint8_t mac[6];
	int32_t socket;
	uint8_t tx_checksums;
	uint8_t rx_checksums;
	uint8_t memory_interface;
	uint8_t spreads_flows;
};
_Static_assert(sizeof(struct psp_dpdk_port_info) == 20, "PortInfo");
_Static_assert(offsetof(struct psp_dpdk_port_info, socket) == 12, "PortInfo");
_Static_assert(offsetof(struct psp_dpdk_port_info, memory_interface) == 18, "PortInfo");

/* A frame in a single mbuf. */
struct psp_dpdk_packet {
	struct rte_mbuf *mbuf;
	uint8_t *buffer;
	uint16_t buffer_len;
	uint16_t start;
	uint16_t len;
	int16_t checksums;
};
_Static_assert(sizeof(struct psp_dpdk_packet) == 24, "Packet");
_Static_assert(offsetof(struct psp_dpdk_packet, checksums) == 22, "Packet");

/* BURST_MAX of src/lib.rs. */
#define PSP_DPDK_BURST_MAX 256

/* 1: the checksums of IPv4 and UDP are correct; -1: one of them is wrong; 0: the port does not know. */
static inline int16_t checksums(const struct rte_mbuf *mbuf)
{
	uint64_t ip = mbuf->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK;
	uint64_t l4 = mbuf->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;
	/* NONE: the frame has no correct checksum, but the port vouches for the data. */
	int ip_right = ip == RTE_MBUF_F_RX_IP_CKSUM_GOOD || ip == RTE_MBUF_F_RX_IP_CKSUM_NONE;
	int l4_right = l4 == RTE_MBUF_F_RX_L4_CKSUM_GOOD || l4 == RTE_MBUF_F_RX_L4_CKSUM_NONE;

	if (ip == RTE_MBUF_F_RX_IP_CKSUM_BAD || l4 == RTE_MBUF_F_RX_L4_CKSUM_BAD)
		return -1;
	return ip_right && l4_right;
}

static inline void describe(struct rte_mbuf *mbuf, struct psp_dpdk_packet *out)
{
	out->mbuf = mbuf;
	out->buffer = mbuf->buf_addr;
	out->buffer_len = mbuf->buf_len;
	out->start = mbuf->data_off;
	out->len = mbuf->data_len;
	out->checksums = checksums(mbuf);
}

int psp_dpdk_errno(void)
{
	return rte_errno;
}

uint16_t psp_dpdk_headroom(void)
{
	return RTE_PKTMBUF_HEADROOM;
}

/* --- ports --- */

int psp_dpdk_port_info(uint16_t port, struct psp_dpdk_port_info *out)
{
	struct rte_eth_dev_info info;
	struct rte_ether_addr mac;
	int status = rte_eth_dev_info_get(port, &info);

	if (status != 0)
		return status;
	status = rte_eth_macaddr_get(port, &mac);
	if (status != 0)
		return status;
	memset(out, 0, sizeof(*out));
	out->rx_queues_max = info.max_rx_queues;
	out->tx_queues_max = info.max_tx_queues;
	status = rte_eth_dev_get_mtu(port, &out->mtu);
	if (status != 0)
		return status;
	memcpy(out->mac, mac.addr_bytes, sizeof(out->mac));
	out->socket = rte_eth_dev_socket_id(port);
	out->tx_checksums = (info.tx_offload_capa & TX_CHECKSUMS) == TX_CHECKSUMS;
	out->rx_checksums = (info.rx_offload_capa & RX_CHECKSUMS) == RX_CHECKSUMS;
	out->spreads_flows = (info.flow_type_rss_offloads & FLOWS) != 0;
	out->memory_interface = info.driver_name != NULL &&
				strcmp(info.driver_name, "net_memif") == 0;
	return 0;
}

/* Writes back the numbers of descriptors that the port has in place of the requested ones. */
int psp_dpdk_port_configure(uint16_t port, uint16_t queues, uint16_t *rx_descriptors,
			    uint16_t *tx_descriptors, int offload)
{
	struct rte_eth_dev_info info;
	struct rte_eth_conf conf;
	int status = rte_eth_dev_info_get(port, &info);

	if (status != 0)
		return status;
	memset(&conf, 0, sizeof(conf));
	if (offload) {
		conf.txmode.offloads |= info.tx_offload_capa & TX_CHECKSUMS;
		conf.rxmode.offloads |= info.rx_offload_capa & RX_CHECKSUMS;
	}
	if (queues > 1) {
		uint64_t spread = info.flow_type_rss_offloads & FLOWS;

		if (spread != 0) {
			conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
			conf.rx_adv_conf.rss_conf.rss_hf = spread;
		}
	}
	status = rte_eth_dev_configure(port, queues, queues, &conf);
	if (status != 0)
		return status;
	return rte_eth_dev_adjust_nb_rx_tx_desc(port, rx_descriptors, tx_descriptors);
}

int psp_dpdk_port_set_mac(uint16_t port, const uint8_t *mac)
{
	struct rte_ether_addr address;

	memcpy(address.addr_bytes, mac, sizeof(address.addr_bytes));
	return rte_eth_dev_default_mac_addr_set(port, &address);
}

int psp_dpdk_link_is_up(uint16_t port)
{
	struct rte_eth_link link;

	memset(&link, 0, sizeof(link));
	return rte_eth_link_get_nowait(port, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

/*
 * Receives up to count frames. Frees a frame in several mbufs or in a shared mbuf, and counts it in odd.
 */
uint16_t psp_dpdk_rx_burst(uint16_t port, uint16_t queue, struct psp_dpdk_packet *packets,
			   uint16_t count, uint16_t *odd)
{
	struct rte_mbuf *mbufs[PSP_DPDK_BURST_MAX];
	uint16_t received, kept = 0;

	if (count > PSP_DPDK_BURST_MAX)
		count = PSP_DPDK_BURST_MAX;
	received = rte_eth_rx_burst(port, queue, mbufs, count);
	for (uint16_t i = 0; i < received; i++)
		rte_prefetch0(rte_pktmbuf_mtod(mbufs[i], void *));
	for (uint16_t i = 0; i < received; i++) {
		if (mbufs[i]->nb_segs == 1 && RTE_MBUF_DIRECT(mbufs[i]) &&
		    rte_mbuf_refcnt_read(mbufs[i]) == 1)
			describe(mbufs[i], &packets[kept++]);
		else
			rte_pktmbuf_free(mbufs[i]);
	}
	*odd = received - kept;
	return kept;
}

uint16_t psp_dpdk_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count)
{
	return rte_eth_tx_burst(port, queue, mbufs, count);
}

/* --- mbufs --- */

/* Takes an mbuf with an empty frame. Returns 0 when the pool has none. */
int psp_dpdk_mbuf_alloc(struct rte_mempool *pool, struct psp_dpdk_packet *packet)
{
	struct rte_mbuf *mbuf = rte_pktmbuf_alloc(pool);

	if (mbuf == NULL)
		return 0;
	describe(mbuf, packet);
	return 1;
}

void psp_dpdk_mbuf_free(struct rte_mbuf *mbuf)
{
	rte_pktmbuf_free(mbuf);
}

/* Sets the frame to send. */
void psp_dpdk_mbuf_set_frame(struct rte_mbuf *mbuf, uint16_t start, uint16_t len, int offload)
{
	mbuf->data_off = start;
	mbuf->data_len = len;
	mbuf->pkt_len = len;
	mbuf->ol_flags = 0;
	mbuf->tx_offload = 0;
	mbuf->packet_type = 0;
	if (offload) {
		mbuf->l2_len = RTE_ETHER_HDR_LEN;
		mbuf->l3_len = sizeof(struct rte_ipv4_hdr);
		mbuf->ol_flags = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM |
				 RTE_MBUF_F_TX_UDP_CKSUM;
	}
}
