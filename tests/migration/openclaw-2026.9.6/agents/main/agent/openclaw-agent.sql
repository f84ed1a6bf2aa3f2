PRAGMA user_version=23;
CREATE TABLE schema_meta (
  meta_key TEXT NOT NULL PRIMARY KEY,
  role TEXT NOT NULL,
  schema_version INTEGER NOT NULL,
  agent_id TEXT,
  app_version TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE TABLE auth_profile_store (
  store_key TEXT NOT NULL PRIMARY KEY,
  store_json TEXT NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE TABLE session_nodes (
  session_key TEXT NOT NULL PRIMARY KEY,
  current_session_id TEXT NOT NULL,
  entry_json TEXT NOT NULL,
  legacy_acp_migration_json TEXT,
  entry_valid INTEGER NOT NULL DEFAULT 0 CHECK (entry_valid IN (-1, 0, 1)),
  updated_at INTEGER NOT NULL,
  status TEXT CHECK (status IS NULL OR status IN ('running', 'done', 'failed', 'killed', 'timeout')),
  created_at INTEGER,
  created_via TEXT CHECK (created_via IS NULL OR created_via IN ('operator', 'spawn', 'channel', 'cron', 'talk', 'run', 'plugin', 'internal')),
  created_actor_type TEXT CHECK (created_actor_type IS NULL OR created_actor_type IN ('human', 'agent', 'system')),
  created_actor_id TEXT,
  owner_actor_type TEXT,
  owner_actor_id TEXT,
  owner_assigned_by_type TEXT,
  owner_assigned_by_id TEXT,
  owner_assigned_at INTEGER,
  project_id TEXT,
  parent_session_key TEXT,
  spawned_by TEXT,
  fork_source_session_key TEXT,
  fork_source_session_id TEXT,
  fork_source_entry_id TEXT,
  label TEXT,
  display_name TEXT,
  category TEXT,
  icon TEXT,
  pinned_at INTEGER,
  archived_at INTEGER,
  last_read_at INTEGER,
  last_interaction_at INTEGER,
  last_activity_at INTEGER
) STRICT;
CREATE TABLE conversations (
  conversation_id TEXT NOT NULL PRIMARY KEY,
  channel TEXT NOT NULL,
  account_id TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('direct', 'group', 'channel')),
  peer_id TEXT NOT NULL,
  delivery_target TEXT NOT NULL,
  parent_conversation_id TEXT,
  thread_id TEXT,
  native_channel_id TEXT,
  native_direct_user_id TEXT,
  label TEXT,
  metadata_json TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE TABLE session_windows (
  session_id TEXT NOT NULL PRIMARY KEY,
  session_key TEXT NOT NULL,
  previous_session_id TEXT,
  reason TEXT CHECK (reason IS NULL OR reason IN ('initial', 'reset', 'rollover', 'fork', 'rewind', 'switch', 'recovery', 'compaction')),
  session_scope TEXT NOT NULL DEFAULT 'conversation' CHECK (session_scope IN ('conversation', 'shared-main', 'group', 'channel')),
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  transcript_updated_at INTEGER DEFAULT NULL,
  transcript_observed_at INTEGER DEFAULT NULL,
  session_entry_provenance INTEGER NOT NULL DEFAULT 0 CHECK (session_entry_provenance IN (0, 1)),
  acp_owned INTEGER NOT NULL DEFAULT 0 CHECK (acp_owned IN (0, 1)),
  plugin_owner_id TEXT,
  hook_external_content_source TEXT CHECK (hook_external_content_source IS NULL OR hook_external_content_source IN ('gmail', 'webhook')),
  started_at INTEGER,
  ended_at INTEGER,
  status TEXT CHECK (status IS NULL OR status IN ('running', 'done', 'failed', 'killed', 'timeout')),
  chat_type TEXT CHECK (chat_type IS NULL OR chat_type IN ('direct', 'group', 'channel')),
  channel TEXT,
  account_id TEXT,
  primary_conversation_id TEXT,
  model_provider TEXT,
  model TEXT,
  agent_harness_id TEXT,
  parent_session_key TEXT,
  spawned_by TEXT,
  display_name TEXT,
  FOREIGN KEY (session_key) REFERENCES session_nodes(session_key) ON DELETE CASCADE,
  FOREIGN KEY (primary_conversation_id) REFERENCES conversations(conversation_id) ON DELETE SET NULL
) STRICT;
CREATE TABLE session_transcript_cold_archives (
  session_id TEXT NOT NULL PRIMARY KEY,
  generation TEXT NOT NULL,
  archive_name TEXT NOT NULL UNIQUE,
  archive_sha256 TEXT NOT NULL CHECK (length(archive_sha256) = 64),
  event_count INTEGER NOT NULL CHECK (event_count >= 1),
  raw_bytes INTEGER NOT NULL CHECK (raw_bytes >= 0),
  archive_bytes INTEGER NOT NULL CHECK (archive_bytes >= 0),
  last_seq INTEGER NOT NULL,
  archived_at INTEGER NOT NULL,
  storage TEXT NOT NULL CHECK (storage IN ('file', 'sqlite')),
  archive_blob BLOB,
  FOREIGN KEY (session_id) REFERENCES "session_windows"(session_id) ON DELETE CASCADE,
  CHECK (length(archive_name) > 0 AND archive_name NOT IN ('.', '..') AND archive_name NOT LIKE '%/%' AND archive_name NOT LIKE '%\%'),
  CHECK ((storage = 'file' AND archive_blob IS NULL) OR (storage = 'sqlite' AND archive_blob IS NOT NULL))
) STRICT;
CREATE TABLE transcript_events (
  session_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  event_json TEXT,
  created_at INTEGER NOT NULL,
  event_zstd BLOB,
  event_utf8_bytes INTEGER CHECK (event_utf8_bytes IS NULL OR event_utf8_bytes >= 0),
  navigation_json TEXT,
  PRIMARY KEY (session_id, seq),
  FOREIGN KEY (session_id) REFERENCES "session_windows"(session_id) ON DELETE CASCADE,
  CHECK (
    (event_json IS NOT NULL AND event_zstd IS NULL)
    OR (
      event_json IS NULL AND event_zstd IS NOT NULL
      AND event_utf8_bytes IS NOT NULL
      AND event_utf8_bytes BETWEEN 1 AND 4194304
      AND length(event_zstd) BETWEEN 1 AND 4194304
      AND navigation_json IS NOT NULL
    )
  ),
  CHECK (
    navigation_json IS NULL OR CASE WHEN json_valid(navigation_json) THEN coalesce(
      octet_length(navigation_json) <= 16384
      AND json_type(navigation_json, '$.version') = 'integer'
      AND json_extract(navigation_json, '$.version') = 1
      AND json_type(navigation_json, '$.report') = 'object'
      AND json_extract(navigation_json, '$.report.kind') IN ('canonical', 'leaf', 'link', 'ignored')
      AND json_type(navigation_json, '$.navigation') = 'object'
      AND json_type(navigation_json, '$.reset') = 'object'
      AND json_type(navigation_json, '$.model') = 'object'
      AND json_type(navigation_json, '$.modelBytes') = 'integer'
      AND json_extract(navigation_json, '$.modelBytes') BETWEEN 0 AND 4194304
      AND json_type(navigation_json, '$.modelWithoutCheckpointBytes') = 'integer'
      AND json_extract(navigation_json, '$.modelWithoutCheckpointBytes') BETWEEN 0 AND 4194304
      AND json_type(navigation_json, '$.withoutCustomDataBytes') = 'integer'
      AND json_extract(navigation_json, '$.withoutCustomDataBytes') BETWEEN 0 AND 4194304,
      0) ELSE 0 END
  )
) STRICT;
CREATE TABLE session_transcript_active_events (
  session_id TEXT NOT NULL,
  active_position INTEGER NOT NULL CHECK (active_position >= 0),
  event_seq INTEGER NOT NULL,
  message_position INTEGER CHECK (message_position IS NULL OR message_position >= 0),
  context_eligible INTEGER,
  PRIMARY KEY (session_id, active_position),
  FOREIGN KEY (session_id, event_seq) REFERENCES transcript_events(session_id, seq) ON DELETE CASCADE
) STRICT;
INSERT INTO schema_meta VALUES('primary','agent',23,'main','2026.9.6',1795647964046,1795647964046);
INSERT INTO session_nodes VALUES('agent:main:main','26659a60-857d-4873-9e5c-abc0f9dd55da','{"sessionId":"26659a60-857d-4873-9e5c-abc0f9dd55da","updatedAt":1795648478820,"sessionStartedAt":1795647963976,"lastInteractionAt":1795648478805,"delivery":{"kind":"external","route":{"channel":"telegram","accountId":"default","target":{"to":"telegram:4242"}},"context":{"channel":"telegram","to":"telegram:4242","accountId":"default"},"origin":{"label":"Ada id:4242","provider":"telegram","surface":"telegram","chatType":"direct","from":"telegram:4242","to":"telegram:4242","accountId":"default"}},"createdVia":"run","createdAt":1795647964084,"activeWriterRunId":"7a12c4d3-16a9-4dc9-b5d4-e2e2faecfe55","status":"done","startedAt":1795648474619,"abortedLastRun":false,"model":"fake","modelProvider":"fake","lastActivityAt":1795648478805,"contextTokens":200000,"contextTokensSource":"resolved","agentHarnessId":"openclaw","contextBudgetStatus":{"schemaVersion":1,"source":"pre-prompt-estimate","updatedAt":1795648478593,"provider":"fake","model":"fake","route":"fits","shouldCompact":false,"estimatedPromptTokens":20733,"contextTokenBudget":200000,"promptBudgetBeforeReserve":180000,"reserveTokens":20000,"effectiveReserveTokens":20000,"remainingPromptBudgetTokens":159267,"overflowTokens":0,"toolResultReducibleChars":0,"messageCount":12,"unwindowedMessageCount":12,"sessionId":"26659a60-857d-4873-9e5c-abc0f9dd55da"},"inputTokens":16879,"outputTokens":5,"cacheRead":0,"cacheWrite":0,"estimatedCostUsd":0,"totalTokens":16879,"totalTokensFresh":true,"totalTokensVersion":1,"chatType":"direct","systemSent":true,"restartRecoveryTerminalRunIds":["channel-user:v1:fb8bc841cc2afa04a360aa752125f90177872a41dfacda14fad9c0607e0b7540","channel-user:v1:8fd83bedb56108a145e50187a886fa5aecce2e404c782534a858a0e7c44a2103"],"endedAt":1795648478816,"runtimeMs":4197,"lastRunId":"7a12c4d3-16a9-4dc9-b5d4-e2e2faecfe55"}',NULL,1,1795648478820,'done',1795647964084,'run',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1795648478805,1795648478805);
INSERT INTO session_nodes VALUES('agent:main:telegram:group:-1001','29b0b232-1cb0-483f-be3c-17c87262e5b6','{"sessionId":"29b0b232-1cb0-483f-be3c-17c87262e5b6","updatedAt":1795648129994,"sessionStartedAt":1795648116954,"createdVia":"channel","createdActor":{"type":"human","source":"channel","id":"4242"},"createdAt":1795648116957,"chatType":"group","groupId":"-1001","subject":"Family","displayName":"telegram:g-family","delivery":{"kind":"external","route":{"channel":"telegram","accountId":"default","target":{"to":"telegram:-1001"}},"context":{"channel":"telegram","to":"telegram:-1001","accountId":"default"},"origin":{"label":"Family id:-1001","provider":"telegram","surface":"telegram","chatType":"group","from":"telegram:group:-1001","to":"telegram:-1001","accountId":"default"}},"lastInteractionAt":1795648117222,"systemSent":true,"abortedLastRun":false,"startedAt":1795648129564,"status":"done","activeWriterRunId":"2f961495-3efa-47f4-a890-24c75e10dbe2","endedAt":1795648129650,"runtimeMs":86,"lastRunId":"2f961495-3efa-47f4-a890-24c75e10dbe2","modelProvider":"fake","model":"fake","agentHarnessId":"openclaw","contextTokensSource":"resolved","contextBudgetStatus":{"schemaVersion":1,"source":"pre-prompt-estimate","updatedAt":1795648129550,"provider":"fake","model":"fake","route":"fits","shouldCompact":false,"estimatedPromptTokens":18913,"contextTokenBudget":200000,"promptBudgetBeforeReserve":180000,"reserveTokens":20000,"effectiveReserveTokens":20000,"remainingPromptBudgetTokens":161087,"overflowTokens":0,"toolResultReducibleChars":0,"messageCount":0,"unwindowedMessageCount":0,"sessionId":"29b0b232-1cb0-483f-be3c-17c87262e5b6"},"contextTokens":200000,"inputTokens":15510,"outputTokens":5,"cacheRead":0,"cacheWrite":0,"estimatedCostUsd":0,"totalTokens":15510,"totalTokensFresh":true,"totalTokensVersion":1,"restartRecoveryTerminalRunIds":["channel-user:v1:8ed2373c4c7497262e7dc1ee9b7690f1f6176368188eef89e2ea189263cf1a62"]}',NULL,1,1795648129994,'done',1795648116957,'channel','human','4242',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'telegram:g-family',NULL,NULL,NULL,NULL,NULL,1795648117222,NULL);
INSERT INTO conversations VALUES('conv_dffa9e80ac34343eb6aa49a94ec9f730','telegram','default','group','-1001','telegram:-1001',NULL,NULL,NULL,NULL,'telegram:g-family',NULL,1795648116957,1795648129994);
INSERT INTO conversations VALUES('conv_1a81171d4c67d7de12e96eb7c2cc412b','telegram','default','direct','4242','telegram:4242',NULL,NULL,NULL,NULL,NULL,NULL,1795647977777,1795648478820);
INSERT INTO session_windows VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da','agent:main:main',NULL,NULL,'shared-main',1795647963976,1795648478820,1795648478754,1795648478754,1,0,NULL,NULL,1795648474619,1795648478816,'done','direct','telegram','default',NULL,'fake','fake','openclaw',NULL,NULL,NULL);
INSERT INTO session_windows VALUES('29b0b232-1cb0-483f-be3c-17c87262e5b6','agent:main:telegram:group:-1001',NULL,NULL,'group',1795648116954,1795648129994,1795648129632,1795648129632,1,0,NULL,NULL,1795648129564,1795648129650,'done','group','telegram','default','conv_dffa9e80ac34343eb6aa49a94ec9f730','fake','fake','openclaw',NULL,NULL,'telegram:g-family');
INSERT INTO transcript_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',0,'{"type":"session","version":4,"id":"26659a60-857d-4873-9e5c-abc0f9dd55da","timestamp":"2026-11-25T23:06:13.254Z","cwd":"/home/owner/.openclaw/workspace"}',1795647973254,NULL,162,NULL);
INSERT INTO transcript_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',1,'{"type":"model_change","provider":"fake","modelId":"fake","id":"9255348a-6639-43af-b1d6-a503ced86b35","parentId":null,"timestamp":"2026-11-25T23:06:13.281Z"}',1795647973281,NULL,157,NULL);
INSERT INTO transcript_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',2,'{"type":"thinking_level_change","thinkingLevel":"off","id":"54a3618f-d09b-4cab-834c-0d347abaf480","parentId":"9255348a-6639-43af-b1d6-a503ced86b35","timestamp":"2026-11-25T23:06:13.610Z"}',1795647973610,NULL,187,NULL);
INSERT INTO transcript_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',3,'{"type":"custom","customType":"model-snapshot","data":{"timestamp":1795647973665,"provider":"fake","modelApi":"openai-completions","modelId":"fake"},"id":"725f088a-61eb-4924-aaf7-3ed2fc25eb8d","parentId":"54a3618f-d09b-4cab-834c-0d347abaf480","timestamp":"2026-11-25T23:06:13.668Z"}',1795647973668,NULL,282,NULL);
INSERT INTO transcript_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',4,'{"type":"message","id":"c79e1035-c701-4f4e-8eb3-8c05422d0309","parentId":"725f088a-61eb-4924-aaf7-3ed2fc25eb8d","timestamp":"2026-11-25T23:06:13.949Z","message":{"role":"user","content":"remember that the spare key is under the blue pot","timestamp":1795647964269,"idempotencyKey":"e5dcd7cc-6da3-45f3-9c18-d09adf03565d:user","__openclaw":{"senderIsOwner":true}}}',1795647973949,NULL,362,NULL);
INSERT INTO transcript_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',5,'{"type":"message","id":"fbf3ea30-5027-4880-b868-7d948c7847e6","parentId":"c79e1035-c701-4f4e-8eb3-8c05422d0309","timestamp":"2026-11-25T23:06:14.330Z","message":{"role":"assistant","content":[{"type":"text","text":"pong"}],"api":"openai-completions","provider":"fake","model":"fake","usage":{"input":15372,"output":5,"cacheRead":0,"cacheWrite":0,"totalTokens":15377,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},"stopReason":"stop","timestamp":1795647974116,"responseId":"chatcmpl-1","__openclaw":{"runId":"e5dcd7cc-6da3-45f3-9c18-d09adf03565d"}}}',1795647974330,NULL,571,NULL);
INSERT INTO transcript_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',6,'{"type":"custom","customType":"openclaw:bootstrap-context:full","data":{"timestamp":1795647974373,"runId":"e5dcd7cc-6da3-45f3-9c18-d09adf03565d","sessionId":"26659a60-857d-4873-9e5c-abc0f9dd55da"},"id":"ad6998a5-b266-4724-bdee-45a0828bdffd","parentId":"fbf3ea30-5027-4880-b868-7d948c7847e6","timestamp":"2026-11-25T23:06:14.373Z"}',1795647974373,NULL,330,NULL);
INSERT INTO transcript_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',7,'{"type":"message","id":"55746cdf-a34f-4ed3-9832-91ef75d79efe","parentId":"ad6998a5-b266-4724-bdee-45a0828bdffd","timestamp":"2026-11-25T23:06:17.648Z","message":{"role":"user","content":"where is the spare key? TOOL:memory_search:{\"query\":\"key\"}","timestamp":1795647977335,"idempotencyKey":"e064734a-f774-48d0-92cc-f94a456ce785:user","__openclaw":{"senderIsOwner":true}}}',1795647977648,NULL,375,NULL);
INSERT INTO transcript_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',8,'{"type":"message","id":"362e867a-2416-441c-82e1-60a77a715947","parentId":"55746cdf-a34f-4ed3-9832-91ef75d79efe","timestamp":"2026-11-25T23:06:17.694Z","message":{"role":"assistant","content":[{"type":"text","text":"pong"}],"api":"openai-completions","provider":"fake","model":"fake","usage":{"input":15413,"output":5,"cacheRead":0,"cacheWrite":0,"totalTokens":15418,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},"stopReason":"stop","timestamp":1795647977661,"responseId":"chatcmpl-2","__openclaw":{"runId":"e064734a-f774-48d0-92cc-f94a456ce785"}}}',1795647977694,NULL,571,NULL);
INSERT INTO transcript_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',9,'{"type":"custom","customType":"openclaw:bootstrap-context:full","data":{"timestamp":1795647977705,"runId":"e064734a-f774-48d0-92cc-f94a456ce785","sessionId":"26659a60-857d-4873-9e5c-abc0f9dd55da"},"id":"d5b0470f-98b9-4954-b4c9-61299cad52d7","parentId":"362e867a-2416-441c-82e1-60a77a715947","timestamp":"2026-11-25T23:06:17.705Z"}',1795647977705,NULL,330,NULL);
INSERT INTO transcript_events VALUES('29b0b232-1cb0-483f-be3c-17c87262e5b6',0,'{"type":"session","version":4,"id":"29b0b232-1cb0-483f-be3c-17c87262e5b6","timestamp":"2026-11-25T23:08:41.692Z","cwd":"/home/owner/.openclaw/workspace"}',1795648121692,NULL,162,NULL);
INSERT INTO transcript_events VALUES('29b0b232-1cb0-483f-be3c-17c87262e5b6',1,'{"type":"message","id":"ac45c970-eac0-4c42-9706-1c096d1e859e","parentId":null,"timestamp":"2026-11-25T23:08:41.688Z","message":{"role":"user","content":"@homebody_test_bot when is dinner?","timestamp":1795648116000,"idempotencyKey":"channel-user:v1:8ed2373c4c7497262e7dc1ee9b7690f1f6176368188eef89e2ea189263cf1a62","__openclaw":{"senderIsOwner":false,"senderId":"4242","senderName":"Ada","senderIdentity":{"type":"observation","id":"4242","pluginId":"telegram","accountId":"default","senderKind":"human"},"transport":{"channel":"telegram","conversationRef":"conv_dffa9e80ac34343eb6aa49a94ec9f730","messageId":"105"}}}}',1795648121688,NULL,618,NULL);
INSERT INTO transcript_events VALUES('29b0b232-1cb0-483f-be3c-17c87262e5b6',2,'{"type":"thinking_level_change","thinkingLevel":"off","id":"716319c6-c41c-4f0b-a108-54574e41bdb9","parentId":"ac45c970-eac0-4c42-9706-1c096d1e859e","timestamp":"2026-11-25T23:08:48.523Z"}',1795648128523,NULL,187,NULL);
INSERT INTO transcript_events VALUES('29b0b232-1cb0-483f-be3c-17c87262e5b6',3,'{"type":"custom","customType":"model-snapshot","data":{"timestamp":1795648129459,"provider":"fake","modelApi":"openai-completions","modelId":"fake"},"id":"916c3898-6f81-4e24-b12c-4bac10a235d0","parentId":"716319c6-c41c-4f0b-a108-54574e41bdb9","timestamp":"2026-11-25T23:08:49.463Z"}',1795648129463,NULL,282,NULL);
INSERT INTO transcript_events VALUES('29b0b232-1cb0-483f-be3c-17c87262e5b6',4,'{"type":"message","id":"f698e8f8-1a0d-4f7d-899a-c1763c84d369","parentId":"916c3898-6f81-4e24-b12c-4bac10a235d0","timestamp":"2026-11-25T23:08:49.617Z","message":{"role":"assistant","content":[{"type":"text","text":"pong"}],"api":"openai-completions","provider":"fake","model":"fake","usage":{"input":15510,"output":5,"cacheRead":0,"cacheWrite":0,"totalTokens":15515,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},"stopReason":"stop","timestamp":1795648129581,"responseId":"chatcmpl-3","__openclaw":{"runId":"2f961495-3efa-47f4-a890-24c75e10dbe2"}}}',1795648129617,NULL,571,NULL);
INSERT INTO transcript_events VALUES('29b0b232-1cb0-483f-be3c-17c87262e5b6',5,'{"type":"custom","customType":"openclaw:bootstrap-context:full","data":{"timestamp":1795648129630,"runId":"2f961495-3efa-47f4-a890-24c75e10dbe2","sessionId":"29b0b232-1cb0-483f-be3c-17c87262e5b6"},"id":"bb13518c-4e88-4e0a-b6f8-a6a753e48def","parentId":"f698e8f8-1a0d-4f7d-899a-c1763c84d369","timestamp":"2026-11-25T23:08:49.630Z"}',1795648129630,NULL,330,NULL);
INSERT INTO transcript_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',10,'{"type":"message","id":"2d7ca697-6def-41d4-8324-a8d8ca5d779b","parentId":"d5b0470f-98b9-4954-b4c9-61299cad52d7","timestamp":"2026-11-25T23:10:17.872Z","message":{"role":"user","content":"my sister is called Bea","timestamp":1795648210000,"idempotencyKey":"channel-user:v1:fb8bc841cc2afa04a360aa752125f90177872a41dfacda14fad9c0607e0b7540","__openclaw":{"senderIsOwner":true,"senderId":"4242","senderName":"Ada","senderIdentity":{"type":"observation","id":"4242","pluginId":"telegram","accountId":"default","senderKind":"human"},"transport":{"channel":"telegram","conversationRef":"conv_1a81171d4c67d7de12e96eb7c2cc412b","messageId":"101"}}}}',1795648217872,NULL,640,NULL);
INSERT INTO transcript_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',11,'{"type":"message","id":"7e371f01-1c24-45f7-94f8-ca62bdb7bfca","parentId":"2d7ca697-6def-41d4-8324-a8d8ca5d779b","timestamp":"2026-11-25T23:10:23.948Z","message":{"role":"assistant","content":[{"type":"text","text":"pong"}],"api":"openai-completions","provider":"fake","model":"fake","usage":{"input":16746,"output":5,"cacheRead":0,"cacheWrite":0,"totalTokens":16751,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},"stopReason":"stop","timestamp":1795648223804,"responseId":"chatcmpl-4","__openclaw":{"runId":"497943dd-d66f-411a-ab22-4e358cb20290"}}}',1795648223948,NULL,571,NULL);
INSERT INTO transcript_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',12,'{"type":"custom","customType":"openclaw:bootstrap-context:full","data":{"timestamp":1795648223966,"runId":"497943dd-d66f-411a-ab22-4e358cb20290","sessionId":"26659a60-857d-4873-9e5c-abc0f9dd55da"},"id":"5d7340ff-50a0-433f-bfe8-7c1b48a06154","parentId":"7e371f01-1c24-45f7-94f8-ca62bdb7bfca","timestamp":"2026-11-25T23:10:23.967Z"}',1795648223967,NULL,330,NULL);
INSERT INTO transcript_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',13,'{"type":"message","id":"b12fa9d6-e0a6-4497-836e-0e793f9ea623","parentId":"5d7340ff-50a0-433f-bfe8-7c1b48a06154","timestamp":"2026-11-25T23:10:26.193Z","message":{"role":"user","content":"what is new?","timestamp":1795648224000,"idempotencyKey":"channel-user:v1:8fd83bedb56108a145e50187a886fa5aecce2e404c782534a858a0e7c44a2103","__openclaw":{"senderIsOwner":true,"senderId":"4242","senderName":"Ada","senderIdentity":{"type":"observation","id":"4242","pluginId":"telegram","accountId":"default","senderKind":"human"},"transport":{"channel":"telegram","conversationRef":"conv_1a81171d4c67d7de12e96eb7c2cc412b","messageId":"103"}}}}',1795648226193,NULL,629,NULL);
INSERT INTO transcript_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',14,'{"type":"message","id":"0fd5a863-1518-4c92-909f-6336350a924f","parentId":"b12fa9d6-e0a6-4497-836e-0e793f9ea623","timestamp":"2026-11-25T23:10:29.391Z","message":{"role":"assistant","content":[{"type":"text","text":"pong"}],"api":"openai-completions","provider":"fake","model":"fake","usage":{"input":16849,"output":5,"cacheRead":0,"cacheWrite":0,"totalTokens":16854,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},"stopReason":"stop","timestamp":1795648229360,"responseId":"chatcmpl-5","__openclaw":{"runId":"98ae6119-f924-40fe-95d7-d94f5a434f8e"}}}',1795648229391,NULL,571,NULL);
INSERT INTO transcript_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',15,'{"type":"custom","customType":"openclaw:bootstrap-context:full","data":{"timestamp":1795648229404,"runId":"98ae6119-f924-40fe-95d7-d94f5a434f8e","sessionId":"26659a60-857d-4873-9e5c-abc0f9dd55da"},"id":"8b27f695-e887-4a04-bb52-c719059d5bad","parentId":"0fd5a863-1518-4c92-909f-6336350a924f","timestamp":"2026-11-25T23:10:29.404Z"}',1795648229404,NULL,330,NULL);
INSERT INTO transcript_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',16,NULL,1795648378516,X'28b52ffd6405096d0d00a6de541f70b76d08e39fb63676a6a9bed85f77802f02339cba29333389f1bcccff0f2f4e0050004000e824d8739f601e22b8b0d68bd249496540daad214e8c914a9247adf841694b70e102f09a7f9883082aa57839248ad24b4387fe865a5246dbad2195bd9f30860b1706117c03e6dc2770e13b8c878da94a2649b97733efaa6616d2f13ce31c8f1dee19c4918ec714edf883772cc71cbce31df3b04462e18e77ec110e2e7ccdbf466140049f770b5cf808c5838d8520816717925e9a6b75a0156522d7a4b8022a5552eeedecebeae9c9dddbd9b7b5b3537b77736f6b6727766e665e564e4eecdcccbbab9b9bd6b79777573735a96b2bebaa6a6a52d74ece4dcdcc949e9dbc01090909bf78dec2e71b040107f0fcd2bcc3c64204863034ef280a0a565b565d55aa6f82d6bd216eca88317da4a4b4add80117323e806168fe299cc42f0c22adc9be097b2b2a0baa5225e5aa15ab551a80a1a821f4f6ffe3c0a34aab01104604847012cc03c54c12a81c39fc50fb30be61f6617ac3eac3ec86cd87b90d5b0ff319b61bee465c63993187b170815b4c56e41497fa44631297ff7ffff7bf7fcecd7873ea45724915329852e0',2565,'{"version":1,"report":{"kind":"canonical","hasParentId":true,"entry":{"id":"aa8e3517-bb53-420b-be5f-bd5998fd4777","parentId":"8b27f695-e887-4a04-bb52-c719059d5bad","timestamp":"2026-11-25T23:12:58.516Z","type":"message"}},"navigation":{"type":"message","id":"aa8e3517-bb53-420b-be5f-bd5998fd4777","parentId":"8b27f695-e887-4a04-bb52-c719059d5bad","timestamp":"2026-11-25T23:12:58.516Z","message":{"role":"user","idempotencyKey":"fa753009-e2aa-42b4-b663-8362172623db:user","__openclaw":{}}},"reset":{"type":"message","id":"aa8e3517-bb53-420b-be5f-bd5998fd4777","parentId":"8b27f695-e887-4a04-bb52-c719059d5bad","timestamp":"2026-11-25T23:12:58.516Z","message":{"role":"user"}},"model":{"type":"message","id":"aa8e3517-bb53-420b-be5f-bd5998fd4777","parentId":"8b27f695-e887-4a04-bb52-c719059d5bad","timestamp":"2026-11-25T23:12:58.516Z","message":{"role":"user","timestamp":1795648364125,"content":[],"command":"","output":"","providerReplay":{"type":null},"details":{"openclawSyntheticMissingToolResult":false}}},"modelBytes":2565,"modelWithoutCheckpointBytes":2565,"withoutCustomDataBytes":2565}');
INSERT INTO transcript_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',17,'{"type":"message","id":"60475b17-ea58-4550-9f6d-d6b34f3787d2","parentId":"aa8e3517-bb53-420b-be5f-bd5998fd4777","timestamp":"2026-11-25T23:12:58.590Z","message":{"role":"assistant","content":[{"type":"text","text":"pong"}],"api":"openai-completions","provider":"fake","model":"fake","usage":{"input":16811,"output":5,"cacheRead":0,"cacheWrite":0,"totalTokens":16816,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},"stopReason":"stop","timestamp":1795648378548,"responseId":"chatcmpl-6","__openclaw":{"runId":"fa753009-e2aa-42b4-b663-8362172623db"}}}',1795648378590,NULL,571,NULL);
INSERT INTO transcript_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',18,'{"type":"custom","customType":"openclaw:bootstrap-context:full","data":{"timestamp":1795648378601,"runId":"fa753009-e2aa-42b4-b663-8362172623db","sessionId":"26659a60-857d-4873-9e5c-abc0f9dd55da"},"id":"294c246a-2a0e-473a-80df-79489f48a649","parentId":"60475b17-ea58-4550-9f6d-d6b34f3787d2","timestamp":"2026-11-25T23:12:58.601Z"}',1795648378601,NULL,330,NULL);
INSERT INTO transcript_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',19,'{"type":"message","id":"d44364ac-1759-4f07-b160-6bb14de2f5f1","parentId":"294c246a-2a0e-473a-80df-79489f48a649","timestamp":"2026-11-25T23:13:34.742Z","message":{"role":"user","content":"after the summary: the boat is called Elsa","timestamp":1795648408496,"idempotencyKey":"1541fa38-b27b-4338-aad6-f8c556e83fd4:user","__openclaw":{"senderIsOwner":true}}}',1795648414742,NULL,355,NULL);
INSERT INTO transcript_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',20,'{"type":"message","id":"c9456b89-7a08-4055-ad5e-d79f0f4ed9f7","parentId":"d44364ac-1759-4f07-b160-6bb14de2f5f1","timestamp":"2026-11-25T23:13:36.032Z","message":{"role":"assistant","content":[{"type":"text","text":"pong"}],"api":"openai-completions","provider":"fake","model":"fake","usage":{"input":16847,"output":5,"cacheRead":0,"cacheWrite":0,"totalTokens":16852,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},"stopReason":"stop","timestamp":1795648414781,"responseId":"chatcmpl-11","__openclaw":{"runId":"1541fa38-b27b-4338-aad6-f8c556e83fd4"}}}',1795648416032,NULL,572,NULL);
INSERT INTO transcript_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',21,'{"type":"custom","customType":"openclaw:bootstrap-context:full","data":{"timestamp":1795648416544,"runId":"1541fa38-b27b-4338-aad6-f8c556e83fd4","sessionId":"26659a60-857d-4873-9e5c-abc0f9dd55da"},"id":"9b1abfaa-ca22-436f-8fb9-a03e017acd4d","parentId":"c9456b89-7a08-4055-ad5e-d79f0f4ed9f7","timestamp":"2026-11-25T23:13:36.545Z"}',1795648416545,NULL,330,NULL);
INSERT INTO transcript_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',22,'{"type":"message","id":"2e46fee5-29d8-45a1-b1fa-bbc64fa6a4e5","parentId":"9b1abfaa-ca22-436f-8fb9-a03e017acd4d","timestamp":"2026-11-25T23:14:38.641Z","message":{"role":"user","content":"and the cat is called Tom","timestamp":1795648471858,"idempotencyKey":"7a12c4d3-16a9-4dc9-b5d4-e2e2faecfe55:user","__openclaw":{"senderIsOwner":true}}}',1795648478641,NULL,338,NULL);
INSERT INTO transcript_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',23,'{"type":"message","id":"5efbceac-77d6-47a3-8637-e0f90262096e","parentId":"2e46fee5-29d8-45a1-b1fa-bbc64fa6a4e5","timestamp":"2026-11-25T23:14:38.735Z","message":{"role":"assistant","content":[{"type":"text","text":"pong"}],"api":"openai-completions","provider":"fake","model":"fake","usage":{"input":16879,"output":5,"cacheRead":0,"cacheWrite":0,"totalTokens":16884,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},"stopReason":"stop","timestamp":1795648478673,"responseId":"chatcmpl-15","__openclaw":{"runId":"7a12c4d3-16a9-4dc9-b5d4-e2e2faecfe55"}}}',1795648478735,NULL,572,NULL);
INSERT INTO transcript_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',24,'{"type":"custom","customType":"openclaw:bootstrap-context:full","data":{"timestamp":1795648478748,"runId":"7a12c4d3-16a9-4dc9-b5d4-e2e2faecfe55","sessionId":"26659a60-857d-4873-9e5c-abc0f9dd55da"},"id":"698a7add-8fbb-4041-ae70-0016d9dc6c3e","parentId":"5efbceac-77d6-47a3-8637-e0f90262096e","timestamp":"2026-11-25T23:14:38.748Z"}',1795648478748,NULL,330,NULL);
INSERT INTO session_transcript_active_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',0,1,NULL,1);
INSERT INTO session_transcript_active_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',1,2,NULL,1);
INSERT INTO session_transcript_active_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',2,3,NULL,1);
INSERT INTO session_transcript_active_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',3,4,0,1);
INSERT INTO session_transcript_active_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',4,5,1,1);
INSERT INTO session_transcript_active_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',5,6,NULL,1);
INSERT INTO session_transcript_active_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',6,7,2,1);
INSERT INTO session_transcript_active_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',7,8,3,1);
INSERT INTO session_transcript_active_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',8,9,NULL,1);
INSERT INTO session_transcript_active_events VALUES('29b0b232-1cb0-483f-be3c-17c87262e5b6',0,1,0,1);
INSERT INTO session_transcript_active_events VALUES('29b0b232-1cb0-483f-be3c-17c87262e5b6',1,2,NULL,1);
INSERT INTO session_transcript_active_events VALUES('29b0b232-1cb0-483f-be3c-17c87262e5b6',2,3,NULL,1);
INSERT INTO session_transcript_active_events VALUES('29b0b232-1cb0-483f-be3c-17c87262e5b6',3,4,1,1);
INSERT INTO session_transcript_active_events VALUES('29b0b232-1cb0-483f-be3c-17c87262e5b6',4,5,NULL,1);
INSERT INTO session_transcript_active_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',9,10,4,1);
INSERT INTO session_transcript_active_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',10,11,5,1);
INSERT INTO session_transcript_active_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',11,12,NULL,1);
INSERT INTO session_transcript_active_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',12,13,6,1);
INSERT INTO session_transcript_active_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',13,14,7,1);
INSERT INTO session_transcript_active_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',14,15,NULL,1);
INSERT INTO session_transcript_active_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',15,16,8,1);
INSERT INTO session_transcript_active_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',16,17,9,1);
INSERT INTO session_transcript_active_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',17,18,NULL,1);
INSERT INTO session_transcript_active_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',18,19,10,1);
INSERT INTO session_transcript_active_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',19,20,11,1);
INSERT INTO session_transcript_active_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',20,21,NULL,1);
INSERT INTO session_transcript_active_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',21,22,12,1);
INSERT INTO session_transcript_active_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',22,23,13,1);
INSERT INTO session_transcript_active_events VALUES('26659a60-857d-4873-9e5c-abc0f9dd55da',23,24,NULL,1);
