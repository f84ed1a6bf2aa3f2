PRAGMA user_version=18;
CREATE TABLE schema_meta (
  meta_key TEXT NOT NULL PRIMARY KEY,
  role TEXT NOT NULL,
  schema_version INTEGER NOT NULL,
  agent_id TEXT,
  app_version TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE TABLE config_machine_state (
      state_key TEXT NOT NULL PRIMARY KEY,
      value_json TEXT NOT NULL,
      updated_at_ms INTEGER NOT NULL
    ) STRICT;
CREATE TABLE channel_pairing_allow_entries (
  channel_key TEXT NOT NULL,
  account_id TEXT NOT NULL,
  entry TEXT NOT NULL,
  sort_order INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (channel_key, account_id, entry)
) STRICT;
CREATE TABLE channel_pairing_requests (
  channel_key TEXT NOT NULL,
  account_id TEXT NOT NULL,
  request_id TEXT NOT NULL,
  code TEXT NOT NULL,
  created_at TEXT NOT NULL,
  last_seen_at TEXT NOT NULL,
  meta_json TEXT,
  PRIMARY KEY (channel_key, account_id, request_id)
) STRICT;
CREATE TABLE cron_jobs (
  store_key TEXT NOT NULL,
  job_id TEXT NOT NULL,
  declaration_key TEXT,
  owner_agent_id TEXT,
  name TEXT NOT NULL,
  description TEXT,
  enabled INTEGER NOT NULL,
  agent_id TEXT,
  payload_kind TEXT NOT NULL,
  job_json TEXT NOT NULL,
  grant_definition_revision TEXT,
  grant_definition_generation INTEGER,
  grant_definition_updated_at INTEGER,
  state_json TEXT NOT NULL DEFAULT '{}',
  runtime_updated_at_ms INTEGER,
  schedule_identity TEXT,
  sort_order INTEGER NOT NULL DEFAULT 0,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (store_key, job_id)
) STRICT;
INSERT INTO schema_meta VALUES('primary','global',18,NULL,'2026.9.6',1795647908938,1795647912153);
INSERT INTO schema_meta VALUES('state-migrations','global',3,NULL,'2026.9.6
3
2026-09-23T16:33:12.144Z
XQfhEFvqtkDrIdSHQZIuLsS0ONJbD1iGWW66GuncdfM
XQfhEFvqtkDrIdSHQZIuLsS0ONJbD1iGWW66GuncdfM
a690a251dd3bcb4bee34ee549f89ec84fbee139ea0652ade52764ec20300d5bc',1795647914818,1795648441945);
INSERT INTO schema_meta VALUES('startup-migrations','global',3,NULL,'2026.9.6
3
2026-09-23T16:33:12.144Z
QRlfnT7kF_WblkIqeJHZXZon50zSDJkRl9NV2vcrG54
QRlfnT7kF_WblkIqeJHZXZon50zSDJkRl9NV2vcrG54
a690a251dd3bcb4bee34ee549f89ec84fbee139ea0652ade52764ec20300d5bc',1795647914952,1795647914952);
INSERT INTO config_machine_state VALUES('authProfiles.store','{"version":1,"profiles":{"openai:manual":{"type":"api_key","provider":"openai","key":"sk-proj-example-and-no-key"}}}',1795648067473);
INSERT INTO channel_pairing_allow_entries VALUES('telegram','default','4242',0,1795648289983);
INSERT INTO channel_pairing_requests VALUES('telegram','default','77','X7EYHDQ7','2026-11-25T23:08:56.524Z','2026-11-25T23:11:29.983Z','{"firstName":"Eve","accountId":"default"}');
INSERT INTO cron_jobs VALUES('/home/owner/.openclaw/cron/jobs.json','1c01f906-b283-44ce-9b46-cc5fe81412a7','memory-core:memory-dreaming-promotion',NULL,'Memory Dreaming Promotion','[managed-by=memory-core.short-term-promotion] Promote weighted short-term recalls into MEMORY.md (limit=10, minScore=0.750, minRecallCount=3, minUniqueQueries=3, recencyHalfLifeDays=14, maxAgeDays=30).',1,NULL,'agentTurn','{"id":"1c01f906-b283-44ce-9b46-cc5fe81412a7","declarationKey":"memory-core:memory-dreaming-promotion","name":"Memory Dreaming Promotion","description":"[managed-by=memory-core.short-term-promotion] Promote weighted short-term recalls into MEMORY.md (limit=10, minScore=0.750, minRecallCount=3, minUniqueQueries=3, recencyHalfLifeDays=14, maxAgeDays=30).","enabled":true,"createdAtMs":1795647925721,"schedule":{"kind":"cron","expr":"0 3 * * *"},"sessionTarget":"isolated","wakeMode":"now","payload":{"kind":"agentTurn","message":"__openclaw_memory_core_short_term_promotion_dream__","lightContext":true,"toolsAllow":["*"]},"delivery":{"mode":"none"},"scheduledToolPolicy":{"version":1,"mode":"trusted"},"state":{}}','sha256:ozJytZnE4wjHFAgO5qrxCw8DoAZUUvFP775Uckup7X0',1,1795647925721,'{"nextRunAtMs":1795662000000}',1795647925721,'{"version":2,"enabled":true,"schedule":{"kind":"cron","expr":"0 3 * * *"},"hasTrigger":false}',0,1795647925721);
INSERT INTO cron_jobs VALUES('/home/owner/.openclaw/cron/jobs.json','b68931ed-a73b-4b89-8d37-9405f48bb58d','heartbeat:main',NULL,'heartbeat-main',NULL,1,'main','heartbeat','{"id":"b68931ed-a73b-4b89-8d37-9405f48bb58d","declarationKey":"heartbeat:main","displayName":"Heartbeat (main)","agentId":"main","name":"heartbeat-main","enabled":true,"createdAtMs":1795647927022,"schedule":{"kind":"every","everyMs":1800000,"anchorMs":1615813},"sessionTarget":"main","wakeMode":"next-heartbeat","payload":{"kind":"heartbeat"},"state":{}}','sha256:muyueWEKJngSV1K3h1dWKAdmyAmQai_ldKmruSGUgCE',1,1795647927022,'{"nextRunAtMs":1795649215813}',1795647927022,'{"version":2,"enabled":true,"schedule":{"kind":"every","everyMs":1800000,"anchorMs":1615813},"hasTrigger":false}',1,1795647927022);
INSERT INTO cron_jobs VALUES('/home/owner/.openclaw/cron/jobs.json','521b6d39-4519-4222-afbf-d77c05fe3529','skill-collection-review:main',NULL,'skill-collection-review-main',NULL,1,'main','agentTurn','{"id":"521b6d39-4519-4222-afbf-d77c05fe3529","declarationKey":"skill-collection-review:main","displayName":"Skill collection review (main)","agentId":"main","name":"skill-collection-review-main","enabled":true,"createdAtMs":1795647927038,"schedule":{"kind":"every","everyMs":604800000,"anchorMs":187015813},"sessionTarget":"isolated","wakeMode":"next-heartbeat","payload":{"kind":"agentTurn","message":"Review this agent''s Skill Workshop as a collection, not a se","toolsAllow":["ls","read","write","edit","apply_patch","exec","process"]},"delivery":{"mode":"none"},"scheduledToolPolicy":{"version":1,"mode":"trusted"},"state":{}}','sha256:epq05tfBKTxtEirrwruj4KZr5b5S75f9Pw6xdlYu01Y',1,1795647927038,'{"nextRunAtMs":1795838215813}',1795647927038,'{"version":2,"enabled":true,"schedule":{"kind":"every","everyMs":604800000,"anchorMs":187015813},"hasTrigger":false}',2,1795647927038);
INSERT INTO cron_jobs VALUES('/home/owner/.openclaw/cron/jobs.json','6fce8bb4-0391-4063-a237-17dc2fb43f84',NULL,NULL,'water',NULL,1,NULL,'systemEvent','{"id":"6fce8bb4-0391-4063-a237-17dc2fb43f84","name":"water","enabled":true,"createdAtMs":1795647980456,"schedule":{"kind":"cron","expr":"0 9 * * 1-5","tz":"Europe/Berlin"},"sessionTarget":"main","wakeMode":"now","payload":{"kind":"systemEvent","text":"Water the plants"},"state":{}}','sha256:jxmIRrdcRRmRj8uyOjYpzWYjyWT1RcfFvL2kHMuVDUc',1,1795647980456,'{"nextRunAtMs":1795680000000}',1795647980456,'{"version":2,"enabled":true,"schedule":{"kind":"cron","expr":"0 9 * * 1-5","tz":"Europe/Berlin"},"hasTrigger":false}',3,1795647980456);
INSERT INTO cron_jobs VALUES('/home/owner/.openclaw/cron/jobs.json','35b788f3-790f-48b8-9fd3-8fff58f4bd49',NULL,NULL,'brief',NULL,1,NULL,'agentTurn','{"id":"35b788f3-790f-48b8-9fd3-8fff58f4bd49","name":"brief","enabled":true,"createdAtMs":1795647983919,"schedule":{"kind":"every","everyMs":1800000,"anchorMs":1795647983919},"sessionTarget":"isolated","wakeMode":"now","payload":{"kind":"agentTurn","message":"what is new?","toolsAllow":["*"]},"delivery":{"mode":"announce","channel":"telegram","to":"4242"},"scheduledToolPolicy":{"version":1,"mode":"trusted"},"state":{}}','sha256:EAzBHAplDCUAE5e6KBtKG1SYrpdtvYFCyNRvOovbcQk',1,1795647983919,'{"nextRunAtMs":1795649783919}',1795647983919,'{"version":2,"enabled":true,"schedule":{"kind":"every","everyMs":1800000,"anchorMs":1795647983919},"hasTrigger":false}',4,1795647983919);
INSERT INTO cron_jobs VALUES('/home/owner/.openclaw/cron/jobs.json','546d41ba-d79b-4692-b4ca-33eee1df7f31',NULL,NULL,'once',NULL,0,NULL,'agentTurn','{"id":"546d41ba-d79b-4692-b4ca-33eee1df7f31","name":"once","enabled":false,"deleteAfterRun":true,"createdAtMs":1795647986853,"schedule":{"kind":"at","at":"2027-01-05T09:00:00.000Z"},"sessionTarget":"isolated","wakeMode":"now","payload":{"kind":"agentTurn","message":"New year check","toolsAllow":["*"]},"delivery":{"mode":"announce","channel":"last"},"scheduledToolPolicy":{"version":1,"mode":"trusted"},"state":{}}','sha256:krvmlr7E4VXuyZRw9SUVYjVUKAhYsjQMT8tjM1FLU_Y',1,1795648101602,'{"scheduleActivatedAtMs":1795648101602}',1795648101602,'{"version":2,"enabled":false,"schedule":{"kind":"at","at":"2027-01-05T09:00:00.000Z"},"hasTrigger":false}',5,1795648101602);
