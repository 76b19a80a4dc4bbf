ferry-pack 1
775
ferry-record 1
channel 69e36568cd8b4659389b9fcfbe1167547f6421e78168bfb439dada2ffddb0146
type claim
writer hes7gtjm5lk4zubb7enrmuxnbi
epoch 1
seq 16
prev sha256:84fd9bac333ad79154348296204fa7f8c537a96e08983e5f73b3f5aca8e8edf7
time 2026-11-30T12:00:00.005Z
need claim.2,sandbox.1
saw hes7gtjm5lk4zubb7enrmuxnbi:1:7:00000000000000000000000000000007
body 237 sha256:dffdf0c2c1f0e532594fa180afe0bf53faa2e3d45cd73c0747a2bdf4e2908516
sig 9e1cc4dd447b14c7 vId8sxD4GoVr3rKU0D6veht1Y5XV9wUL0I/gyr491ZgftOSM4hjjz8Ya/6uU1OTrmiaOSnIBuqFQGyEgVDHACQ==

{"order":"70ce871f8a3d3fb449bc3c3ace6547cef02dfc74ffe48d912532a724bfdbe5b9","attempt":1,"supersedes":["70ce871f8a3d3fb449bc3c3ace6547cef02dfc74ffe48d912532a724bfdbe5b9","70ce871f8a3d3fb449bc3c3ace6547cef02dfc74ffe48d912532a724bfdbe5b9"]}
844
ferry-record 1
channel 69e36568cd8b4659389b9fcfbe1167547f6421e78168bfb439dada2ffddb0146
type start
writer hes7gtjm5lk4zubb7enrmuxnbi
epoch 1
seq 17
prev sha256:84fd9bac333ad79154348296204fa7f8c537a96e08983e5f73b3f5aca8e8edf7
time 2026-11-30T12:00:00.005Z
need claim.2,sandbox.1
saw hes7gtjm5lk4zubb7enrmuxnbi:1:7:00000000000000000000000000000007
body 306 sha256:e3707c03ec1d3f7891486861418a54584a4713bb3d11a667524132508f86654e
sig 9e1cc4dd447b14c7 /Qga+fQdcJuKDkufJfjr1PdeVurGPmLADyfDbq5VRH2H4fFaJhHNjwixdmyragX8w5eTvDpL4emObIyU8WrrCg==

{"order":"70ce871f8a3d3fb449bc3c3ace6547cef02dfc74ffe48d912532a724bfdbe5b9","attempt":1,"claim":"70ce871f8a3d3fb449bc3c3ace6547cef02dfc74ffe48d912532a724bfdbe5b9","engine":"text ä \" \\ <&>\n","model":"text ä \" \\ <&>\n","sandbox":"text ä \" \\ <&>\n","from":"0123456789abcdef0123456789abcdef01234567"}
538
ferry-record 1
channel 69e36568cd8b4659389b9fcfbe1167547f6421e78168bfb439dada2ffddb0146
type order
writer hes7gtjm5lk4zubb7enrmuxnbi
epoch 1
seq 15
prev sha256:84fd9bac333ad79154348296204fa7f8c537a96e08983e5f73b3f5aca8e8edf7
time 2026-11-30T12:00:00.005Z
need claim.2,sandbox.1
saw hes7gtjm5lk4zubb7enrmuxnbi:1:7:00000000000000000000000000000007
body 966 sha256:7df1a348916063142ce9155fb005b9f928e28d1da30e64c9e73ca96f38b0c812
sig 9e1cc4dd447b14c7 Ux/qqSzaZQ9V2XG66VcNHDB4vPcllU+j8yQ6U1qBUAW0jQMtVRMIP7PuLJzr2XTm5bjctD+sNSbAOHRBKt9XAw==


end 3 sha256:d5ee3f868e0139062ffd190e32e66443bab4239d911a13504232049bcb524213
