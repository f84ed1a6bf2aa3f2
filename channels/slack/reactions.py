"""The app's own reaction on a message, one at a time, and emoji with their Slack names (https://api.slack.com/docs/emoji).

A name that is not listed here stays a name. Importing this module loads the library.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from slack_sdk.errors import SlackApiError

from channels.common.log import Log
from channels.common.recent import Recent
from channels.slack.api_errors import code_of
from channels.slack.slack_cache import PLACE, SlackCache
from channels.slack.web_client import RateLimit

if TYPE_CHECKING:
    from slack_sdk.web.async_client import AsyncWebClient

_ALREADY = {"already_reacted", "no_reaction"}


class Reactions:
    """What the app has put where. Of messages that it did not see come, Slack is asked."""

    def __init__(self, web: AsyncWebClient, rate_limit: RateLimit, log: Log, known: SlackCache, *, me: str) -> None:
        self._web = web
        self._rate_limit = rate_limit
        self._log = log
        self._known = known
        self._me = me
        self._put: Recent[PLACE, str] = Recent()

    async def react(self, channel: str, message: str, emoji: str | None) -> None:
        """Set the app's reaction on a message in place of an earlier one; None removes it. Raises SlackApiError and its like."""
        name = name_of(emoji) if emoji else None
        if emoji and name is None:
            self._log.info("slack has no name for an emoji, so no reaction was set", emoji=emoji)
            return
        earlier = await self._earlier(channel, message, gone=name is None)
        if name is not None and name not in earlier:
            await self._call("reactions.add", lambda: self._web.reactions_add(channel=channel, timestamp=message, name=name))
            self._put.put((channel, message), name)
        for one in earlier:
            if one != name:
                await self._remove(channel, message, one)
        if name is None:
            self._put.take((channel, message))

    async def _remove(self, channel: str, message: str, name: str) -> None:
        await self._call("reactions.remove", lambda: self._web.reactions_remove(channel=channel, timestamp=message, name=name))

    async def _earlier(self, channel: str, message: str, *, gone: bool) -> list[str]:
        known = self._put.get((channel, message))
        if known is not None:
            return [known]
        if not gone and self._known.fresh.get((channel, message)):
            return []
        answer = await self._rate_limit.call(
            "reactions.get", "", lambda: self._web.reactions_get(channel=channel, timestamp=message, full=True), for_show=True
        )
        shown = (answer.get("message") or {}).get("reactions") or []
        return [str(one["name"]) for one in shown if self._me in (one.get("users") or [])]

    async def _call(self, method: str, calling: Callable[[], Awaitable[object]]) -> None:
        try:
            await self._rate_limit.call(method, "", calling, for_show=True)
        except SlackApiError as error:
            if code_of(error) not in _ALREADY:
                raise


_TABLE: Final = """
+1 👍|-1 👎|eyes 👀|white_check_mark ✅|heavy_check_mark ✔|ballot_box_with_check ☑|x ❌
|negative_squared_cross_mark ❎|hourglass_flowing_sand ⏳|hourglass ⌛|watch ⌚|alarm_clock ⏰|warning ⚠|no_entry ⛔
|no_entry_sign 🚫|octagonal_sign 🛑|question ❓|grey_question ❔|exclamation ❗|grey_exclamation ❕|bangbang ‼
|interrobang ⁉|100 💯|fire 🔥|rocket 🚀|tada 🎉|confetti_ball 🎊|sparkles ✨|star ⭐|star2 🌟|zap ⚡|boom 💥|bulb 💡
|memo 📝|pencil2 ✏|pushpin 📌|round_pushpin 📍|paperclip 📎|link 🔗|bookmark 🔖|mag 🔍|mag_right 🔎|lock 🔒|unlock 🔓
|key 🔑|wrench 🔧|hammer 🔨|gear ⚙|bell 🔔|no_bell 🔕|mute 🔇|loudspeaker 📢|mega 📣|speech_balloon 💬
|thought_balloon 💭|email ✉|envelope_with_arrow 📩|inbox_tray 📥|outbox_tray 📤|package 📦|calendar 📆|date 📅
|chart_with_upwards_trend 📈|chart_with_downwards_trend 📉|bar_chart 📊|clipboard 📋|file_folder 📁|books 📚|book 📖
|heart ❤|orange_heart 🧡|yellow_heart 💛|green_heart 💚|blue_heart 💙|purple_heart 💜|black_heart 🖤|white_heart 🤍
|broken_heart 💔|two_hearts 💕|sparkling_heart 💖|heartbeat 💓|ok_hand 👌|clap 👏|raised_hands 🙌|pray 🙏|wave 👋
|muscle 💪|point_up ☝|point_up_2 👆|point_down 👇|point_left 👈|point_right 👉|v ✌|crossed_fingers 🤞|handshake 🤝
|raised_hand ✋|writing_hand ✍|facepunch 👊|fist ✊|hugging_face 🤗|saluting_face 🫡|smile 😄|smiley 😃|grinning 😀
|grin 😁|laughing 😆|joy 😂|rolling_on_the_floor_laughing 🤣|sweat_smile 😅|slightly_smiling_face 🙂
|upside_down_face 🙃|wink 😉|blush 😊|innocent 😇|heart_eyes 😍|star-struck 🤩|kissing_heart 😘|yum 😋
|stuck_out_tongue 😛|stuck_out_tongue_winking_eye 😜|thinking_face 🤔|shushing_face 🤫|zipper_mouth_face 🤐
|neutral_face 😐|expressionless 😑|smirk 😏|unamused 😒|face_with_rolling_eyes 🙄|grimacing 😬|relieved 😌|pensive 😔
|sleepy 😪|sleeping 😴|mask 😷|nerd_face 🤓|sunglasses 😎|confused 😕|worried 😟|slightly_frowning_face 🙁
|open_mouth 😮|hushed 😯|astonished 😲|flushed 😳|pleading_face 🥺|fearful 😨|cold_sweat 😰|cry 😢|sob 😭|scream 😱
|disappointed 😞|sweat 😓|weary 😩|tired_face 😫|yawning_face 🥱|triumph 😤|rage 😡|angry 😠|exploding_head 🤯
|partying_face 🥳|face_with_monocle 🧐|shrug 🤷|man-shrugging 🤷‍♂️|woman-shrugging 🤷‍♀️|facepalm 🤦|skull 💀
|ghost 👻|alien 👽|robot_face 🤖|hankey 💩|see_no_evil 🙈|hear_no_evil 🙉|speak_no_evil 🙊|cat 🐱|dog 🐶|unicorn_face 🦄
|bug 🐛|bee 🐝|turtle 🐢|snail 🐌|sunny ☀|cloud ☁|umbrella_with_rain_drops ☔|snowflake ❄|rainbow 🌈|ocean 🌊
|seedling 🌱|evergreen_tree 🌲|four_leaf_clover 🍀|rose 🌹|sunflower 🌻|apple 🍎|banana 🍌|pizza 🍕|cake 🍰|birthday 🎂
|cookie 🍪|coffee ☕|tea 🍵|beer 🍺|beers 🍻|wine_glass 🍷|champagne 🍾|house 🏠|car 🚗|train2 🚆|airplane ✈|ship 🚢
|bike 🚲|moneybag 💰|dollar 💵|gift 🎁|trophy 🏆|sports_medal 🏅|soccer ⚽|dart 🎯|art 🎨|musical_note 🎵|microphone 🎤
|headphones 🎧|camera 📷|computer 💻|iphone 📱|telephone_receiver 📞|battery 🔋|electric_plug 🔌|pill 💊|microscope 🔬
|arrow_up ⬆|arrow_down ⬇|arrow_left ⬅|arrow_right ➡|arrows_counterclockwise 🔄|repeat 🔁|heavy_plus_sign ➕
|heavy_minus_sign ➖|infinity ♾|recycle ♻|radioactive_sign ☢|biohazard_sign ☣|red_circle 🔴
|large_orange_circle 🟠|large_yellow_circle 🟡|large_green_circle 🟢|large_blue_circle 🔵|large_purple_circle 🟣
|white_circle ⚪|black_circle ⚫|checkered_flag 🏁|triangular_flag_on_post 🚩|waving_white_flag 🏳|zero 0⃣|one 1⃣
|two 2⃣|three 3⃣|four 4⃣|five 5⃣|six 6⃣|seven 7⃣|eight 8⃣|nine 9⃣|keycap_ten 🔟|zzz 💤|dash 💨|sweat_drops 💦
|brain 🧠|eye 👁|ear 👂|nose 👃|baby 👶|older_man 👴|woman 👩|man 👨|santa 🎅|angel 👼|snowman_without_snow ⛄|crown 👑
|gem 💎|ring 💍|door 🚪|bed 🛏|shopping_trolley 🛒|wastebasket 🗑|broom 🧹|test_tube 🧪|dna 🧬|construction 🚧
|rotating_light 🚨|vertical_traffic_light 🚦|new 🆕|ok 🆗|sos 🆘|cool 🆒|free 🆓|up 🆙
"""
_ALIASES: Final = {
    "thumbsup": "+1",
    "thumbsdown": "-1",
    "envelope": "email",
    "collision": "boom",
    "poop": "hankey",
    "satisfied": "laughing",
    "red_heart": "heart",
    "hugs": "hugging_face",
    "robot": "robot_face",
    "thinking": "thinking_face",
    "punch": "facepunch",
    "hand": "raised_hand",
    "telephone": "telephone_receiver",
    "unicorn": "unicorn_face",
    "open_book": "book",
    "heavy_exclamation_mark": "exclamation",
}
_VARIANT: Final = "\ufe0f"
_SKIN: Final = {chr(code) for code in range(0x1F3FB, 0x1F400)}


def _bare(emoji: str) -> str:
    """Return an emoji without its skin and without the mark that asks for its coloured form."""
    return "".join(letter for letter in emoji if letter != _VARIANT and letter not in _SKIN)


_EMOJI: Final = {
    name: emoji for entry in _TABLE.replace("\n", "").split("|") if entry for name, emoji in [entry.strip().rsplit(" ", 1)]
}
_NAMES: Final = {_bare(emoji): name for name, emoji in _EMOJI.items()}


def emoji_of(name: str) -> str:
    """Return the emoji that Slack calls ``name``, or ``:name:`` for one that is not known, such as a workspace's own."""
    plain = name.partition("::")[0]
    return _EMOJI.get(_ALIASES.get(plain, plain), f":{plain}:")


def name_of(emoji: str) -> str | None:
    """Return Slack's name for an emoji or for ``:name:``; None when it is not known."""
    if len(emoji) > 2 and emoji.startswith(":") and emoji.endswith(":"):  # noqa: PLR2004 - two colons
        return emoji.strip(":")
    return _NAMES.get(_bare(emoji))
